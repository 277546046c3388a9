"""What did the operator choose? `config.toml`, the environment and flags, read once into frozen sections."""

from herodotus.core.settings.sections import PRESETS, SECTIONS, Settings
from herodotus.operate.settings.load import Effective, Layer, environment_layer, file_layer, resolve

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
