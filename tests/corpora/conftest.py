"""No deadlines: a busy machine is slow now and then, and that says nothing about a property."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
