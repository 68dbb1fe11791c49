from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

torch = pytest.importorskip("torch")

from huggingface_hub import ModelCard
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentgym_py.errors import PolicyError
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import add_adapters
from agentgym_py.report.export import export, find_source
from agentgym_py.report.model_card import _chain, _hub_base, model_index, round_origin, successes_of


def said(folder: Any) -> Any:
    """A model's logits, as transformers alone opens it."""
    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder)(input_ids=torch.arange(40)[None]).logits


def test_a_checkpoint_says_exactly_what_it_said(agentgym: Any, small_model: str) -> None:
    """An ordinary folder: safetensors, tokenizer, chat template and a card; nothing beside it."""
    status, out, err = agentgym("export", small_model, "--out", "given")
    assert status == 0 and out.startswith("given: ") and not err
    assert torch.equal(said("given"), said(small_model))
    names = {each.name for each in Path("given").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "README.md"} <= names
    assert "which knows nothing of its training" in Path("given/README.md").read_text(encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained("given")
    assert "<|user|>hi" in tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert [each.name for each in Path().iterdir()] == ["given"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_are_merged(agentgym: Any, small_model: str, dtype: str) -> None:
    """Into the model that they name or into --base: logits within 1e-3 of before, in the base's number format."""
    from peft import LoraConfig, PeftModel, get_peft_model

    Policy.load(small_model, dtype=dtype).save("base")
    torch.manual_seed(1)  # some adapters are so far from what bfloat16 can say that a merge shows it
    model = get_peft_model(Policy.load("base").model, LoraConfig(r=2, target_modules="all-linear"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter += 0.3
    model.save_pretrained("adapters")
    before = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("base").float(), "adapters").eval()
    with torch.no_grad():
        expected = before(input_ids=torch.arange(40)[None]).logits
    assert (expected - said("base").float()).abs().max() > 0.1, "else it is no test"
    assert agentgym("export", "adapters", "--base", "base", "--out", "merged")[0] == 0
    assert json.loads(Path("merged/config.json").read_text())["dtype"] == dtype
    assert (said("merged").float() - expected).abs().max() < (1e-3 if dtype == "float32" else 0.1)
    assert not list(Path("merged").glob("adapter*"))
    status, _, err = agentgym("export", "base", "--base", "base", "--out", "other")
    assert status == 2 and "--base is what adapters are merged into" in err and not Path("other").exists()


@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_a_merge_is_compared_at_the_scale_of_the_logits(
    small_model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scale: float
) -> None:
    """Rounding grows with the logits and is accepted; adapters that do not merge are refused at any scale."""
    monkeypatch.chdir(tmp_path)
    policy = Policy.load(small_model)
    with torch.no_grad():
        policy.model.model.norm.weight *= scale
    policy.save("base")
    model = add_adapters(Policy.load("base").model, 2, seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter += 0.3
    model.save_pretrained("adapters")
    export(find_source("adapters"), "merged", base="base")
    merged = Policy.merged

    def changed(self: Policy) -> Policy:
        result = merged(self)
        with torch.no_grad():
            result.model.model.norm.weight *= 1.01
        return result

    monkeypatch.setattr(Policy, "merged", changed)
    with pytest.raises(PolicyError, match="give other outputs once merged"):
        export(find_source("adapters"), "wrong", base="base")


def test_a_run_gives_its_best_round_and_the_card_says_where_it_is_from(agentgym: Any, small_model: str) -> None:
    """Round, base, trainer, data, worlds' versions, figures; no folder of this machine."""
    words = ["evolve", "--env", "GUESS", "--model", small_model, "--preset", "smoke", "--out", "run", "--threads", "1"]
    assert agentgym(*words)[0] == 0
    source = find_source("run")
    assert source.run and source.number == source.run.best_round(1)
    assert agentgym("export", "run", "--round", "1", "--out", "given")[0] == 0
    assert torch.equal(said("given"), said("run/rounds/01/checkpoint"))
    card = Path("given/README.md").read_text(encoding="utf-8")
    metrics = source.run.metrics(1)
    for expected in (
        "| run | run |", f"| weights (SHA-256) | {metrics['policy_digest']} |", "| base | small |", "filtered_bc (",
        "| worlds | GuessForTests-v0 ", "| valid | 4 |", "| test | 4 |", "torch 2", "library_name: transformers",
    ):  # fmt: skip
        assert expected in card, expected
    assert str(Path.cwd()) not in card and str(Path(small_model).parent) not in card
    again = find_source("run/rounds/01/checkpoint")
    assert again.number == 1 and again.run and again.run.path == Path("run").absolute()
    for words, complaint in ((["--round", "7"], "no round 7"), (["--out", "run"], "already holds a run")):
        status, _, err = agentgym("export", "run", "--out", "more", *words)
        assert status == 2 and complaint in err and not Path("more").exists()


def test_what_train_wrote_keeps_its_provenance(agentgym: Any, small_model: str) -> None:
    """The trainer, its settings, how much it learnt from, and the files by their names."""
    assert agentgym("collect", "--env", "GUESS", "--tasks", "6", "--out", "played.jsonl")[0] == 0
    words = ["--data", str(Path("played.jsonl").absolute()), "--model", small_model, "--out", "made"]
    assert agentgym("train", *words, "--trainer.epochs", "1", "--threads", "1")[0] == 0
    for number, what in enumerate(("made", "made/checkpoint")):
        assert agentgym("export", what, "--out", f"given{number}")[0] == 0
        card = Path(f"given{number}/README.md").read_text(encoding="utf-8")
        assert (
            "trained with agentgym-py" in card
            and "| data | played.jsonl |" in card
            and "trained on | 6 trajectories" in card
            and "epochs 1" in card
        )
        base = Policy.load(small_model).digest()
        for expected in (f"| base weights (SHA-256) | {base} |", "| base | small |", "| started | 20", "torch 2"):
            assert expected in card, expected
        assert str(Path.cwd()) not in card and str(Path(small_model).parent) not in card


def test_only_a_checkpoint_has_its_trainings_card(agentgym: Any, small_model: str) -> None:
    """Another folder beside it is any other model, of which nothing is known; what is not there is an error."""
    Path("t/checkpoint").mkdir(parents=True)
    Path("t/train.json").write_text("{}")
    shutil.copytree(small_model, "t/last_good")
    assert agentgym("export", "t/last_good", "--out", "given")[0] == 0
    card = Path("given/README.md").read_text(encoding="utf-8")
    assert "which knows nothing of its training" in card and "| exported from | last_good |" in card
    for what, complaint in (("t/typo", "no model 't/typo'"), ("t/train.json", "is a file; a model is the folder")):
        status, _, err = agentgym("export", what, "--out", "more")
        assert status == 2 and complaint in err and err.count("\n") == 1 and not Path("more").exists()
    run = Path("run/rounds/01")
    run.mkdir(parents=True)
    Path("run/run.yaml").write_text("{}")
    for folder in (Path("t/checkpoint"), run / "last_good", run / "checkpoint"):
        shutil.copytree(small_model, folder, dirs_exist_ok=True)
    assert find_source("t/checkpoint").origin is None, "train.json is empty"
    assert find_source(str(run / "last_good")).run is None
    found = find_source(str(run / "checkpoint"))
    assert found.run and found.run.path == Path("run").absolute() and found.number == 1


@pytest.mark.parametrize("judge", ["reward_model", "process_reward"])
def test_a_judge_is_no_policy(agentgym: Any, judge: str) -> None:
    """The training of one, and its own folder; without a name the complaint has the help's word."""
    Path("t", judge).mkdir(parents=True)
    Path("t", judge, f"{judge}.json").write_text("{}")
    Path("t/train.json").write_text("{}")
    for what in ("t", f"t/{judge}"):
        status, _, err = agentgym("export", what, "--out", "given")
        assert status == 2 and f"it holds a {judge}, which is not a policy" in err and err.count("\n") == 1
    status, _, err = agentgym("export", "--out", "given")
    assert status == 2 and "MODEL is missing: agentgym export MODEL" in err


def written_run(folder: Path, rounds: int, **changes: Any) -> RunFolder:
    """A run whose rounds are over, as far as a card reads it."""
    config = {
        "env": ["shop"], "env_kwargs": {"goals": "human", "catalogue": "/home/me/secret/catalogue"}, "model": "tiny",
        "trainer": {"name": "grpo", "kind": "grpo"}, "cloner": {"epochs": 2}, "seed": 0, "rounds": rounds,
        **asdict(EvolveConfig()), **changes,
    }  # fmt: skip
    made_with = {"base_policy": "abc", "started": "2026-01-01", "packages": {"torch": "2"}, "env_versions": {"shop": 1}}
    with RunFolder.start(folder, config, made_with) as run:
        for number in range(rounds + 1):
            estimate = {"value": number / 9, "low": 0.0, "high": 1.0, "n": 4}
            valid = {"success": estimate, "reward": estimate, "steps": 3.0}
            run.write_json(f"rounds/{number:02d}/metrics.json", {"training": {"trajectories": 5}, "valid": valid})
            (run.round(number) / "checkpoint").mkdir()
    return run


def test_a_card_says_who_made_which_round(tmp_path: Path) -> None:
    """The cloner made round 0; a later one has its trainer, too, its exploration and what it took of it."""
    run = written_run(tmp_path / "mine", 2)
    first, second = round_origin(run, 0).rows, round_origin(run, 1).rows
    assert first["trainer"] == "filtered_bc (epochs 2)" and "Agent_v0" not in first and not first["exploration"]
    assert second["trainer"] == "grpo (variant grpo)" and second["Agent_v0"] == "filtered_bc (epochs 2)"
    assert second["expert"] == "fair, 12 tasks a world, with thoughts"
    assert second["exploration"] == "1000 tasks a round, 1 attempts each, temperature 0.5"
    assert "merge last, restart previous" in second["selection"] and "success_only True" in second["selection"]
    assert second["worlds' arguments"] == "goals human, catalogue catalogue"
    without = written_run(tmp_path / "without", 0, expert_tasks=0)
    assert not round_origin(without, 0).rows["trainer"] and not round_origin(without, 0).rows["expert"]


def test_no_path_or_address_of_this_machine_is_told(tmp_path: Path) -> None:
    """However deep in the settings."""
    judge = {"model": "owner/judge", "base_url": "http://10.0.0.7:8000/v1"}
    trainer = {"name": "r3", "prm": "/home/me/secret/judge", "prm_judge": judge, "more": ["~/a/b", "../c/d"]}
    run = written_run(tmp_path / "mine", 1, trainer=trainer, reward_model="/home/me/secret/rewards")
    told = str(round_origin(run, 1).rows)
    assert "prm judge" in told and "owner/judge" in told and "'reward model': 'rewards'" in told and "more b, d" in told
    assert not [word for word in ("/home", "secret", "10.0.0.7", "~", "..") if word in told]


def test_a_card_follows_what_a_model_was_made_from(tmp_path: Path) -> None:
    """Base, reward model, the trajectories that this learnt from, and the base of all, each by what made it."""
    sft = written_run(tmp_path / "01-sft", 0, trainer={"name": "filtered_bc"})
    base, data = str(sft.round(0) / "checkpoint"), tmp_path / "02-samples" / "trajectories.jsonl"
    data.parent.mkdir()
    data.touch()
    (tmp_path / "03-judge" / "reward_model").mkdir(parents=True)
    (tmp_path / "03-judge" / "reward_model" / "reward_model.json").write_text("{}")
    training = {"trajectories": 7, "agent_tokens": 99, "dropped": {}}
    settings = {"model": base, "data": [str(data)], "trainer": {"name": "reward_model", "match": "all"}, "seed": 0}
    RunFolder(tmp_path / "03-judge").write_json("train.json", {"settings": settings, "training": training})
    samples = {"name": "samples", "command": "collect", "settings": {"model": "$sft", "tasks": 250, "attempts": 4}}
    stages = [{"name": "sft"}, samples, {"name": "judge"}, {"name": "rl"}]
    RunFolder(tmp_path).write_json("pipeline.json", {"stages": stages, "done": {}})
    rl = written_run(tmp_path / "04-rl", 1, model=base, reward_model=str(tmp_path / "03-judge" / "reward_model"))
    origin = round_origin(rl, 1)
    assert origin.rows["base"] == "01-sft, round 0" and origin.rows["reward model"] == "03-judge"
    chain = _chain(origin)
    assert [line.split(" | ")[:2] for line in chain[4:-1]] == [
        ["| base", "01-sft, round 0"], ["| reward model", "03-judge"], ["| data", "02-samples"],
    ]  # fmt: skip
    assert "reward_model (match all)" in chain[5] and "base: 01-sft, round 0" in chain[5]
    assert "collect (model 01-sft, tasks 250, attempts 4)" in chain[6]
    assert str(tmp_path) not in "".join(chain) + str(origin.rows)
    (tmp_path / "03-judge" / "train.json").write_text("[]")
    assert len(_chain(round_origin(rl, 1))) == len(chain) - 2, "what is broken is left out"


def test_a_card_has_the_hubs_metadata(tmp_path: Path) -> None:
    """Success by world and split as `model-index`, and the base of all trainings if it is on the hub."""
    sft = written_run(tmp_path / "sft", 0, model="owner/base-1B")
    run = written_run(tmp_path / "rl", 1, model=str(sft.round(0) / "checkpoint"))
    origin = round_origin(run, 1)
    head = {"model-index": model_index(successes_of(origin), "mine"), "base_model": _hub_base(origin, "x")}
    card: Any = ModelCard(f"---\n{yaml.safe_dump(head)}---\n")
    assert card.data.base_model == "owner/base-1B" and card.data.model_name == "mine"
    (result,) = card.data.eval_results
    assert (result.dataset_name, result.dataset_split, result.metric_type) == ("shop", "valid", "success_rate")
    assert result.metric_value == 0.1111 and "[0, 100]" in result.metric_name
    assert _hub_base(round_origin(written_run(tmp_path / "tiny", 0), 0), "x") is None
    assert (
        _hub_base(None, "smollm2") == "HuggingFaceTB/SmolLM2-135M-Instruct" and _hub_base(None, str(tmp_path)) is None
    )


def test_a_card_has_evaluations_of_the_same_weights(agentgym: Any, small_model: str) -> None:
    """Those of `agentgym eval` in any number format; one of other weights is refused, and leaves nothing."""
    for number, dtype in enumerate(("float32", "bfloat16")):
        words = ["--split", ("valid", "test")[number], "--dtype", dtype, "--out", f"eval{number}", "--threads", "1"]
        assert agentgym("eval", "--env", "GUESS", "--model", small_model, "--tasks", "3", *words)[0] == 0
    assert agentgym("export", small_model, "--evals", "eval0,eval1", "--out", "given")[0] == 0
    card: Any = ModelCard.load("given/README.md")
    assert [(each.dataset_name, each.dataset_split) for each in card.data.eval_results] == [
        ("guessfortests", "valid"), ("guessfortests", "test"),
    ]  # fmt: skip
    assert "| guessfortests | valid | 3 | 0.0 % [0, 56] (only 3 tasks) |" in card.text
    policy = Policy.load(small_model)
    with torch.no_grad():
        policy.model.model.norm.weight *= 1.01
    policy.save("other")
    status, _, err = agentgym("export", "other", "--evals", "eval0", "--out", "more")
    assert status == 2 and "eval0 is no evaluation of other" in err and err.count("\n") == 1
    assert not Path("more").exists()


def test_an_export_is_pushed(agentgym: Any, small_model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """To a private repository by default; without the hub the folder stays, and the error says how to upload it."""
    calls = list[Any]()

    def create_repo(self: Any, repo_id: str, **settings: Any) -> str:
        calls.append((repo_id, settings))
        return f"https://hub.example/{repo_id}"

    def upload_folder(self: Any, *, repo_id: str, folder_path: Path, commit_message: str) -> None:
        calls.append((repo_id, sorted(path.name for path in folder_path.iterdir())))

    words = ("export", small_model, "--out")
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_tests")
    status, _, err = agentgym(*words, "offline", "--push", "me/mine")
    assert status == 2 and "offline is complete, but it was not pushed to me/mine" in err and err.count("\n") == 1
    assert "hf upload me/mine offline" in err and Path("offline/README.md").is_file() and "hf_of" not in err
    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", create_repo)
    monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", upload_folder)
    status, out, _ = agentgym(*words, "given", "--push", "me/mine")
    assert status == 0 and out.endswith("https://hub.example/me/mine\n")
    assert calls[0] == ("me/mine", {"private": True, "exist_ok": True}) and "model.safetensors" in calls[1][1]
    for name in ("mine", "a/b/c", "me/my model"):
        status, _, err = agentgym(*words, "more", "--push", name)
        assert status == 2 and "--push must be OWNER/NAME on the hub" in err and not Path("more").exists()
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    status, _, err = agentgym(*words, "more", "--push", "me/mine")
    assert status == 2 and "--push needs a token of the hub" in err and not Path("more").exists()


def script(path: Path, text: str) -> None:
    """An executable in the shell's language."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_gguf_comes_from_the_converter_that_is_there(
    agentgym: Any, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the folder and the file's name; without one, or where it fails, one line and no folder."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("LLAMA_CPP", raising=False)
    words = ["export", small_model, "--out", "given", "--gguf"]
    status, _, err = agentgym(*words)
    assert status == 2 and "--gguf needs llama.cpp's convert_hf_to_gguf.py" in err and not Path("given").exists()
    script(Path("tools/convert-hf-to-gguf"), 'test -f "$1/config.json" && test "$2" = --outfile && echo GGUF > "$3"\n')
    monkeypatch.setenv("PATH", f"{Path('tools').absolute()}{os.pathsep}/usr/bin:/bin")
    assert agentgym(*words)[0] == 0 and Path("given/given.gguf").read_text() == "GGUF\n"
    script(Path("tools/convert-hf-to-gguf"), "echo 'BPE pre-tokenizer was not recognized' >&2; exit 1\n")
    status, _, err = agentgym("export", small_model, "--out", "more", "--gguf")
    assert status == 2 and "not recognized" in err and err.count("\n") == 1 and not Path("more").exists()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("LLAMA_CPP", "checkout")
    Path("checkout").mkdir()
    code = "import sys; open(sys.argv[3], 'w').write('python')"
    Path("checkout/convert_hf_to_gguf.py").write_text(code, encoding="utf-8")
    assert agentgym("export", small_model, "--out", "more", "--gguf")[0] == 0
    assert Path("more/more.gguf").read_text() == "python"


def test_what_is_no_model_is_refused(agentgym: Any, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, and nothing is left; nor where what was written says something else."""
    for words, complaint in (
        (["nothing"], "no model 'nothing'"), ([small_model, "--round", "1"], "--round 1 needs a run"),
        ([small_model, "--rond", "1"], "did you mean --round?"),
    ):  # fmt: skip
        status, _, err = agentgym("export", *words, "--out", "given")
        assert status == 2 and complaint in err and err.count("\n") == 1
    status, _, err = agentgym("export", small_model)
    assert status == 2 and "--out DIR is needed" in err
    true = Policy.save

    def wrong(self: Policy, folder: Any) -> None:
        with torch.no_grad():
            self.model.model.norm.weight *= 2
            true(self, folder)
            self.model.model.norm.weight /= 2

    monkeypatch.setattr(Policy, "save", wrong)
    with pytest.raises(Exception, match="the written model gives other outputs"):
        export(find_source(small_model), "given")
    assert not list(Path().iterdir())
