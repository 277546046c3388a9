"""What would a ring do? Worlds in virtual time, rings inside them, a synthetic web, and the testers' command.

Nobody imports it but tests and scripts.
"""
