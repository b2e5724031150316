"""A model from the float16 parts that baselines_gpu.py brings home: one folder for `--option model=FOLDER`.

    python benchmarks/join_parts.py OUT betae -o betae.model

Parts of LMPNN are without the tables of its link predictor, which is given again: --predictor MODEL.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from tuplet.errors import BadInput, TupletError
from tuplet.lab.baselines.embedding import QueryModelSettings
from tuplet.lab.baselines.models import create
from tuplet.predict.model_folder import load, read_tensors, save
from tuplet.settings import from_mapping


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("name", help="betae, logice, cone or lmpnn")
    parser.add_argument("--predictor", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        join(arguments.out, arguments.name, arguments.output, arguments.predictor)
    except TupletError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(arguments.output)
    return 0


def join(out: Path, name: str, folder: Path, predictor: Path | None = None) -> None:
    """Pieces `key#0`, `key#1`, … of all parts, put together in order."""
    parts = sorted(out.glob(f"{name}.*.safetensors"), key=lambda path: int(path.name.split(".")[-2]))
    if not parts or not (out / f"{name}.json").exists():
        raise BadInput(f"{out} has no parts of {name}")
    pieces = {key: value for part in parts for key, value in read_tensors(part).items()}
    tensors: dict[str, torch.Tensor] = {}
    for key in dict.fromkeys(piece.rpartition("#")[0] for piece in pieces):
        mine = [pieces[f"{key}#{i}"] for i in range(sum(piece.rpartition("#")[0] == key for piece in pieces))]
        tensors[key] = torch.cat(mine) if mine[0].dim() else mine[0]
    about = json.loads((out / f"{name}.json").read_text())
    settings = from_mapping(QueryModelSettings, about["settings"])
    chosen = load(predictor) if predictor is not None else None
    model = create(name, about["entities"], about["relations"], settings, predictor=chosen)
    missing = model.load_state_dict({key: value.float() for key, value in tensors.items()}, strict=False)
    if missing.unexpected_keys or (missing.missing_keys and chosen is None):
        raise BadInput(f"the parts of {name} do not make a model: {missing}")
    keep = ("graph", "config", "steps", "queries", "train_seconds", "finished", "device", "valid_mrr")
    save(model, folder, {key: about[key] for key in keep if key in about})


if __name__ == "__main__":
    sys.exit(main())
