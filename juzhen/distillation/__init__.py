"""Students: smaller encoders initialised from a larger one."""
