"""Adapters: a few matrices that learn beside frozen weights (LoRA, DoRA), by peft."""
