"""The settings of one daemon as an object: every field, read from its sources and checked."""
from __future__ import annotations

import socket
from typing import Any

from pydantic import ValidationInfo, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from .checks import check
from .credentials import credentials
from .fields import (Clients, Copying, Database, Engine, Failover, Figures, Keeping, Policies, Queues, Sealing, Server,
                     Telling, Tokens)
from .lists import listed, targets_read
from .messages import expected, given, traits
from .sources import NO_EFFECT, Given, file_values


def is_live(name: str) -> bool:
    return bool(traits(Settings.model_fields[name])["live"])


def is_secret(name: str) -> bool:
    return bool(traits(Settings.model_fields[name])["secret"])


class Settings(Tokens, Telling, Sealing, Copying, Failover, Figures, Keeping, Queues, Policies, Engine, Database,
               Clients,
               Server):
    model_config = SettingsConfigDict(env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def settings_customise_sources(cls, settings_cls, init_settings, env_settings, dotenv_settings,
                                   file_secret_settings):
        file = {name: value for name, value in file_values().items() if name.upper() not in NO_EFFECT}
        secret, _ = credentials(settings_cls.model_fields)
        # the first source with a value wins
        return init_settings, Given(settings_cls, secret), env_settings, Given(settings_cls, file)

    def take(self, other: Settings, names: set[str]) -> None:
        """Copies the named settings from another object, for every holder of this object."""
        for name in names:
            self.__dict__[name] = getattr(other, name)

    def open_paths(self) -> list[str]:
        """Returns the elements of JWT_SKIP_PATHS."""
        return listed(self.jwt_skip_paths)

    def address(self) -> str:
        """Returns the address to listen on; "" is every address."""
        return self.host if self.host is not None else "0.0.0.0" if self.jwt_enabled else "127.0.0.1"

    def scheme(self) -> str:
        """Returns the scheme of the port's URL."""
        return "https" if self.queend_tls_cert else "http"

    def origins(self) -> list[str]:
        """Returns CORS_ORIGINS as browsers write them."""
        return ["*"] if "*" in (found := listed(self.cors_origins.lower())) else [one.rstrip("/") for one in found]

    def hosts(self) -> list[str]:
        """Returns the names of this machine, as the Host field has them."""
        return [*dict.fromkeys(["localhost", "127.0.0.1", "[::1]", socket.gethostname().lower(),
                                (self.host or "localhost").lower(), *listed(self.queend_hosts.lower())])]

    def migration_targets(self) -> set[tuple[str, int, str]]:
        """Returns QUEEND_MIGRATION_TARGETS: host, port, database."""
        return targets_read(self.queend_migration_targets)

    @field_validator("*", mode="before")
    @classmethod
    def _counted(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuses booleans as numbers: `port = true` in the file would be port 1."""
        name = info.field_name or ""
        field = cls.model_fields[name]
        if isinstance(value, bool) and field.annotation is not bool:
            raise ValueError(f"{given(value, is_secret(name))} is {expected(field)}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        check(self)
        return self
