"""The pure part of the ring: no clock, no chance, no input or output of its own."""
