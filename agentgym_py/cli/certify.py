"""`agentgym certify`: certify that a world can be solved, learned and not gamed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import registry
from agentgym_py.certificate.certificate import CertificateSettings
from agentgym_py.checks import Basic
from agentgym_py.cli.check import FAILED, add_only, read_only, run_and_show
from agentgym_py.cli.env_options import ENV_HELP, add_env_kwargs, env_spec, print_env_error
from agentgym_py.cli.parser import Parser, Values, read_options
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.files import claimed

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.certificate import Certificate
    from agentgym_py.env import EnvSpec


@dataclass(frozen=True, slots=True)
class CertifyOptions(CertificateSettings):
    """The extent of the checks, and their output."""

    out: Basic[str] = "certificates"
    """Folder of the certificate `ID.json` and the badge `ID.svg`, with the world's arguments after its id; those of an
    incomplete certificate are `ID.incomplete.json` and `ID.incomplete.svg`."""
    json: bool = False
    """Print the certificates as JSON at the end; progress goes to stderr."""


def options(parser: Parser) -> None:
    """Add the options of `certify`."""
    from agentgym_py.certificate import ALL_CHECKS

    parser.add_positional("name", f"{ENV_HELP} Or an installed package: all worlds of it.")
    add_env_kwargs(parser)
    add_only(parser, ALL_CHECKS)
    parser.add_dataclass(CertifyOptions)


def run(args: Values) -> int:
    """Certify a world, or those of a package; return 1 if one did not pass, 130 after Ctrl-C."""
    from agentgym_py.certificate import ALL_CHECKS

    chosen, checks = read_options(CertifyOptions, args), read_only(args, ALL_CHECKS)
    specs: list[EnvSpec] = []
    for name in worlds_of(args["name"]):
        try:
            specs.append(env_spec(name, args["env_kwargs"]))
        except Exception as error:  # a world may raise anything
            return print_env_error(error, name)
    out, status, certificates = console(chosen.json), 0, list[Mapping[str, Any]]()
    for spec in specs:
        certificate, status = _certify(spec, checks, chosen, out)
        certificates.append(certificate.as_dict())
        if status:
            break
    if chosen.json:
        print_json(certificates[0] if len(specs) == 1 else certificates)
    failed = any(certificate["checks"] and not certificate["ok"] for certificate in certificates)
    return status or (FAILED if failed else 0)


def worlds_of(name: str) -> list[str]:
    """Return the ids of an installed package's worlds, or the name itself if it is no such package."""
    plugins = registry.plugins("agentgym.envs")
    return [plugin.name for plugin in plugins if plugin.package == name] or [name]


def _certify(spec: EnvSpec, checks: list[str], chosen: CertifyOptions, out: Console) -> tuple[Certificate, int]:
    """Certify one world and write its files; return the status of an interrupt or 0."""
    from agentgym_py.certificate import ALL_CHECKS
    from agentgym_py.certificate.certificate import certificate_of, file_stem, predict_seconds
    from agentgym_py.env.registration import env_id

    seconds = predict_seconds(spec, checks, chosen)
    out.print(
        f"{env_id(spec.name)}: {len(checks)} check{'s' * (len(checks) != 1)}, about {_minutes(seconds)}", soft_wrap=True
    )
    with claimed(Path(chosen.out) / f"{file_stem(spec)}.json"):
        report, status = run_and_show(spec, checks, ALL_CHECKS, chosen, out)
        certificate = certificate_of(report, seconds)
        paths = certificate.write(Path(chosen.out))
    out.print(report.verdict(), soft_wrap=True)
    why = f": {len(certificate.missing)} of {len(ALL_CHECKS)} checks were not done" if certificate.missing else ""
    out.print(f"certificate {certificate.verdict} after {_minutes(certificate.seconds)}{why}", soft_wrap=True)
    print(f"written: {paths[0]} and {paths[1]}", file=sys.stderr)
    return certificate, status


def _minutes(seconds: float) -> str:
    number = max(1, round(seconds))
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{number} second{'s' * (number != 1)}"
