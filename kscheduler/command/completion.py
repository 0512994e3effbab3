"""Implements `kscheduler completion SHELL`: prints a script with which bash, zsh or fish complete commands and flags.

    source <(kscheduler completion bash)                                   # bash, and zsh alike
    kscheduler completion fish > ~/.config/fish/completions/kscheduler.fish

The script knows the words; it does not start the program. Where a flag's value is expected, files are completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SHELLS = ("bash", "fish", "zsh")
Words = Mapping[str, Sequence[str]]  # commands, as "config show", "" for the program itself -> what may follow


def script(shell: str, words: Words) -> str:
    """Return the script for one of `SHELLS`."""
    if shell == "fish":
        return _fish(words)
    return _ZSH + _bash(words) if shell == "zsh" else _bash(words)


# zsh runs bash's completions itself.
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def _bash(words: Words) -> str:
    cases = "\n".join(f"    {command!r}) words={' '.join(after)!r} ;;" for command, after in words.items())
    return f"""\
# Completes kscheduler's commands and flags.
_kscheduler() {{
  local command="" word words="" current="${{COMP_WORDS[COMP_CWORD]}}" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    case "|{"|".join(command for command in words if command)}|" in
      *"|${{command:+$command }}$word|"*) command="${{command:+$command }}$word" ;;
    esac
  done
  case "$command" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _kscheduler kscheduler
"""


def _fish(words: Words) -> str:
    lines = ["# Completes kscheduler's commands and flags."]
    commands = [word for word in words[""] if not word.startswith("-")]
    lines.append(f"complete -c kscheduler -n '__fish_use_subcommand' -f -a '{' '.join(commands)}'")
    for command, after in words.items():
        if not command:
            continue
        first, _, second = command.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            seen += f"; and __fish_seen_subcommand_from {second}"
        if below := [word for word in after if not word.startswith("-")]:
            lines.append(f"complete -c kscheduler -n '{seen}' -f -a '{' '.join(below)}'")
        for flag in after:
            if flag.startswith("--"):
                lines.append(f"complete -c kscheduler -n '{seen}' -l {flag[2:]}")
            elif flag.startswith("-"):
                lines.append(f"complete -c kscheduler -n '{seen}' -s {flag[1:]}")
    return "\n".join([*lines, ""])
