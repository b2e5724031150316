"""The laboratory: benchmarks, other ways to answer to compare with, and the forms in which others write queries."""

PLUGINS = {
    "engines": {
        "fit": "tuplet.lab.baselines.engine:FitEngine",
        "qto": "tuplet.lab.baselines.engine:QtoEngine",
        "cqd": "tuplet.lab.baselines.engine:CqdEngine",
        "lmpnn": "tuplet.lab.baselines.engine:LmpnnEngine",
        "betae": "tuplet.lab.baselines.engine:BetaEEngine",
        "logice": "tuplet.lab.baselines.engine:LogicEEngine",
        "cone": "tuplet.lab.baselines.engine:ConEEngine",
    },
    "languages": {
        "efok": "tuplet.lab.benchmark_forms:parse_efok",
        "betae": "tuplet.lab.benchmark_forms:parse_betae",
    },
    "indexes": {"neural": "tuplet.lab.baselines.models:NeuralIndex"},
    "commands": {
        "train": "tuplet.lab.commands:TRAIN",
        "bench": "tuplet.lab.commands:BENCH",
        "guarantee": "tuplet.lab.commands:GUARANTEE",
    },
}
