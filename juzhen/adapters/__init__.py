"""Adapters (LoRA, DoRA) by peft: small trainable matrices next to frozen weights."""
