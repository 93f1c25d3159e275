"""Profiling sessions: commands measured alone and in pairs on this machine."""
