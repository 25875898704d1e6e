"""Every error cera raises on purpose, as one tree.

    CeraError
    ├── InvalidInputError (ValueError)      an argument, prompt or option the caller can correct
    │   ├── ConfigError                     cera.toml, an environment variable or an option
    │   ├── UnknownNameError                no drafter, backend, model or command of that name
    │   └── ContextFullError                more tokens than the context holds
    ├── ModelFileError                      a model file that is missing, damaged or not understood
    │   └── UnsupportedModelError           a sound file that asks for something cera does not have
    ├── ModelError (RuntimeError)           a backend broke its contract or failed
    │   └── RewindError                     a state cannot go back that far
    ├── PluginError (RuntimeError)          the plugin that was asked for cannot be used
    ├── DownloadError                       no source delivered the file
    ├── MissingModelError                   a model that is not on this machine yet
    └── SessionBusyError (RuntimeError)     a second thread used a session that is at work

What is no error, but worth knowing, is a `CeraWarning`, given through `warnings.warn`.

A message says, in this order: the subject, what is required, what was found, what to do.
"""

from __future__ import annotations


class CeraError(Exception):
    """Base of all errors raised on purpose; the command line prints it as one paragraph."""


class InvalidInputError(CeraError, ValueError):
    """An argument, prompt or option is not usable."""


class ConfigError(InvalidInputError):
    """A setting in a file, the environment or a call is not usable."""


class UnknownNameError(InvalidInputError):
    """Nothing of that name is installed."""


class ContextFullError(InvalidInputError):
    """The tokens do not fit into the context."""


class ModelFileError(CeraError):
    """A model file is missing, damaged or not understood."""


class UnsupportedModelError(ModelFileError):
    """A sound model file needs an architecture, tensor type or feature that is not there."""


class ModelError(CeraError, RuntimeError):
    """A backend broke the contract of `Model`, or failed."""


class RewindError(ModelError):
    """A state cannot be truncated to the length asked for."""


class PluginError(CeraError, RuntimeError):
    """The plugin that was asked for cannot be used."""


class DownloadError(CeraError):
    """No source delivered the file."""


class MissingModelError(CeraError):
    """The model is not on this machine."""


class SessionBusyError(CeraError, RuntimeError):
    """A session was used from a second thread while it was at work."""


class CeraWarning(UserWarning):
    """Something was not as asked or not as expected, and cera went on."""
