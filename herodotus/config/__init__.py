"""What did the operator choose? `config.toml`, the environment and flags, read once into frozen sections."""

from herodotus.config.load import Effective, Layer, environment_layer, file_layer, resolve
from herodotus.config.sections import PRESETS, SECTIONS, Settings

__all__ = [
    "PRESETS",
    "SECTIONS",
    "Effective",
    "Layer",
    "Settings",
    "environment_layer",
    "file_layer",
    "resolve",
]
