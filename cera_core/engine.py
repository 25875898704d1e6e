"""From a name to something that answers: model file, backend, tokenizer and drafter, put together."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cera_core.assembly import make_drafter, make_model, warn_of_unused
from cera_core.calibration import FILE_NAME, Calibration, calibration_key
from cera_core.config import Config, load_config
from cera_core.discovery import Plugins, discover
from cera_core.drafter import Drafter
from cera_core.drafting.memory import Memory, memory_path
from cera_core.errors import ConfigError, InvalidInputError
from cera_core.files import cache_folder
from cera_core.generation import Generation, TokenStream, collected
from cera_core.generation_options import GenerationOptions
from cera_core.model import Model
from cera_core.modelfile.catalogue import resolve
from cera_core.modelfile.chat import ChatTemplate, load_chat_template
from cera_core.modelfile.gguf import open_model_file
from cera_core.modelfile.tokenizer import ModelTokenizer, load_tokenizer
from cera_core.observers import Observers
from cera_core.registry import AUTO, NONE
from cera_core.session import Session
from cera_core.session_drafters import check_is_choice
from cera_core.specs import DrafterContext
from cera_core.speculation.costs import RoundCosts
from cera_core.speculation.decode import why_not_verified
from cera_core.validation import validated

_log = logging.getLogger("cera")

if TYPE_CHECKING:
    Messages: TypeAlias = Sequence[Mapping[str, str]]


class Engine:
    """A model that is ready to answer.

    Attributes:
        model: The weights and the forward pass.
        tokenizer: Text to ids and back.
        drafter: The drafter that sessions clone; None if drafting is off.
        config: The settings it was made with.
        chat_template: How the model wants conversations written; None if the file does not say.
        plugins: Everything that is installed.
        memory: Of earlier answers, shared by the sessions; None unless the settings name one.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: ModelTokenizer,
        config: Config,
        plugins: Plugins,
        *,
        drafter: Drafter | None = None,
        chat_template: ChatTemplate | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        _check_context_length(config, model)
        self.model = model
        self.tokenizer = tokenizer
        self.config = config
        self.plugins = plugins
        self.chat_template = chat_template
        self._context = DrafterContext(
            tokenizer=tokenizer,
            vocab_size=model.config.vocab_size,
            tokenizer_fingerprint=tokenizer.fingerprint,
        )
        self.memory = self._remembered(config)
        self._named: dict[str, Drafter | None] = {}
        self._choice = drafter if drafter is not None else config.drafter
        self.drafter = drafter if drafter is not None else self._drafter_named(config.drafter)
        self._say_if_nothing_is_drafted()
        self._calibration = calibration
        self._costs = RoundCosts()
        self._observers = Observers(plugins.manager)

    def session(self, **options: Any) -> Session:
        """Makes an empty session.

        Args:
            **options: As in `GenerationOptions`, and `drafter`; what holds in the session where a call says nothing.
        """
        drafter = options.pop("drafter", self._choice)
        given = self.config.generation.model_dump(exclude_unset=True) | options
        return Session(
            self.model,
            self.tokenizer,
            drafter,
            options=validated(GenerationOptions, given, owner="a session"),
            max_seq_len=self.config.context_length,
            costs=self._calibration.costs if self._calibration and drafter not in (None, NONE) else self._costs,
            observers=self._observers,
            make_drafter=self._drafter_named,
            memory=self.memory,
        )

    def calibrated_steps(self) -> dict[int, float]:
        """Returns what forwards of several rows cost on this machine, in plain steps by number of rows.

        That is what the calibration found, now or earlier; empty for a model that verifies no drafts or that could not
        be measured, and where the settings say `calibrate = false`.
        """
        return self._calibration.costs.remembered if self._calibration else {}

    def save_memory(self) -> None:
        """Writes the memory of earlier answers into the cache folder, if the settings name one.

        Raises:
            InvalidInputError: It cannot be written.
        """
        if self.memory is not None and self.config.memory is not None:
            self.memory.save(memory_path(self.config.memory))

    def _remembered(self, config: Config) -> Memory | None:
        if config.memory is None:
            return None
        memory = Memory(self.tokenizer.fingerprint, config.memory_max_bytes)
        memory.load(memory_path(config.memory))
        return memory

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Generation:
        """Continues a prompt.

        Args:
            prompt: Raw text or token ids.
            **options: As in `GenerationOptions`, and `drafter` (a name, a drafter or None).
        """
        return collected(self.stream(prompt, **options))

    def stream(self, prompt: str | Sequence[int], **options: Any) -> TokenStream:
        """Continues a prompt like `generate`, and hands out the tokens as they come."""
        session = self.session()
        session.append(prompt)
        return session.stream(**options)

    def chat(self, messages: Messages, *, session: Session | None = None, **options: Any) -> Generation:
        """Answers a conversation.

        Args:
            messages: Each with `role` and `content`, the oldest first.
            session: One of this engine's, kept from turn to turn: what the conversation has in common with it is not
                computed again.
            **options: As in `generate`.

        Raises:
            InvalidInputError: The model file has no chat template.
        """
        return collected(self.stream_chat(messages, session=session, **options))

    def stream_chat(self, messages: Messages, *, session: Session | None = None, **options: Any) -> TokenStream:
        """Answers a conversation like `chat`, and hands out the tokens as they come."""
        session = session or self.session()
        session.replace(self.chat_ids(messages))
        return session.stream(**options)

    def chat_ids(self, messages: Messages) -> list[int]:
        """Turns a conversation into the token ids of the prompt for the next answer."""
        if self.chat_template is None:
            raise InvalidInputError(
                "A conversation needs a chat template, and the model file has none ('tokenizer.chat_template'). Use "
                "'generate' with raw text."
            )
        return self.tokenizer.encode(self.chat_template.render(messages), parse_special=True)

    def _say_if_nothing_is_drafted(self) -> None:
        """Says once, when the model is loaded, that it cannot verify drafts."""
        reason = why_not_verified(self.model) if self.drafter is not None else ""
        if reason:
            _log.warning("Nothing is drafted with this model, because %s; the text is the same without.", reason)

    def _drafter_named(self, name: str) -> Drafter | None:
        """Makes the drafter of that name once; sessions clone it."""
        if name not in self._named:
            self._named[name] = make_drafter(name, self.plugins, self.config.drafters, self._context)
        return self._named[name]


def load(
    model: str | os.PathLike[str] | None = None,
    backend: str = AUTO,
    drafter: str | Drafter | None = AUTO,
    config: Config | str | os.PathLike[str] | None = None,
    backend_options: Mapping[str, Any] | None = None,
    drafter_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Engine:
    """Loads a model and makes it ready to answer.

    What is not given comes from the settings: `CERA_*` variables, the project's `cera.toml`, the user's.

    Args:
        model: A model file, or a name that `cera pull` knows.
        backend: A backend's name; `auto` leaves it to the settings, and there means the best that runs here.
        drafter: A drafter's name or a drafter; `auto` leaves it to the settings, and there combines several; None for
            none.
        config: Settings in place of those that would be read, or the `cera.toml` to read.
        backend_options: Options of the backend.
        drafter_options: Options of the drafter.
        **options: Defaults of a generation, as in `GenerationOptions`, `context_length`, `memory` and
            `memory_max_bytes`.

    Raises:
        CeraError: Something cannot be found, read or used; the message says what and what to do.
    """
    config = _effective(config, model, backend, drafter, backend_options, drafter_options, options)
    plugins = discover(config.disabled_plugins)
    warn_of_unused(config, plugins)
    if config.drafter not in (AUTO, NONE):
        plugins.drafter(config.drafter)  # a name that is wrong is said before the weights are read
    model_file = open_model_file(resolve(config.model))
    loaded = make_model(model_file, config.backend, plugins, config.backends)
    return Engine(
        loaded,
        load_tokenizer(model_file),
        config,
        plugins,
        drafter=drafter if isinstance(drafter, Drafter) else None,
        chat_template=load_chat_template(model_file),
        calibration=_calibration(loaded, model_file.path, config) if config.calibrate else None,
    )


def load_model(path: str | os.PathLike[str], backend: str = AUTO, **backend_options: Any) -> Model:
    """Loads only the weights.

    Args:
        path: A model file, or a name that `cera pull` knows.
        backend: A backend's name; `auto` is the best that runs here.
        **backend_options: Options of the backend; with `auto`, of whichever it is.
    """
    return make_model(open_model_file(resolve(path)), backend, discover(), {backend: backend_options})


def create_drafter(name: str, **options: Any) -> Drafter:
    """Makes a drafter of an installed plugin, outside any engine.

    Args:
        name: The drafter's name.
        **options: Its options.

    Raises:
        UnknownNameError: There is none of that name.
        ConfigError: An option is unknown or not usable.
    """
    drafter = make_drafter(name, discover(), {name: options}, DrafterContext())
    if drafter is None:
        raise InvalidInputError(f"{NONE!r} stands for no drafter and cannot be created; leave the drafter out.")
    return drafter


def _check_is_path(name: str, value: object) -> None:
    if not isinstance(value, str | os.PathLike | None):
        raise InvalidInputError(f"{name!r} takes a name or a path; it is a {type(value).__name__}.")


def _check_context_length(config: Config, model: Model) -> None:
    """Raises for a context longer than the model's, in the words of the settings: a state knows only its own."""
    length, limit = config.context_length, model.config.max_seq_len
    if length is not None and length > limit:
        raise ConfigError(
            f"'context_length' must be at most {limit}, what the model was made for, but is {length} "
            f"({config.origin_of('context_length')}). Lower it, or leave it out for all of the model's."
        )


def _calibration(model: Model, path: Path, config: Config) -> Calibration | None:
    """Returns how costs are found; None for a model that verifies no drafts."""
    if why_not_verified(model):
        return None
    file = cache_folder() / FILE_NAME
    options = config.backends.get(config.backend, {})
    return Calibration(model, file, calibration_key(model, path, options))


def _effective(
    config: Config | str | os.PathLike[str] | None,
    model: str | os.PathLike[str] | None,
    backend: str,
    drafter: str | Drafter | None,
    backend_options: Mapping[str, Any] | None,
    drafter_options: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> Config:
    """Lays the arguments of `load` over the settings."""
    check_is_choice(drafter)
    _check_is_path("model", model)
    if drafter_options and not isinstance(drafter, str):
        raise InvalidInputError(
            "'drafter_options' are for a drafter that is chosen by name; this call "
            f"{'turns drafting off' if drafter is None else 'brings its own drafter'}. Leave them out."
        )
    if not isinstance(config, Config):
        _check_is_path("config", config)
        config = load_config(None if config is None else Path(config))
    arguments: dict[str, Any] = {}
    if model is not None:
        arguments["model"] = os.fspath(model)
    if backend != AUTO:
        arguments["backend"] = backend
    if drafter is None:
        arguments["drafter"] = NONE
    elif isinstance(drafter, str) and drafter != AUTO:
        arguments["drafter"] = drafter
    for name in ("context_length", "memory", "memory_max_bytes"):
        if name in options:
            arguments[name] = options.pop(name)
    if options:
        arguments["generation"] = options
    if backend_options:
        arguments["backends"] = {arguments.get("backend", config.backend): backend_options}
    if drafter_options:
        arguments["drafters"] = {arguments.get("drafter", config.drafter): drafter_options}
    return config.updated(arguments) if arguments else config
