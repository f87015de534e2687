#!/usr/bin/env python3
"""Shows that the layout tests can fail: breaks one layout rule at a time in a copy of the sources,
rebuilds the tests there and expects them to fail.

    tests/layout/mutation_test.py            all mutations, several minutes
    tests/layout/mutation_test.py fc1        those whose name contains "fc1"

Needs meson and ninja. Exit status 0 if the sources as they are pass and every mutation fails.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FLAT = "libplan/layout/flat_buffers.cc"
LOCAL = "libplan/layout/local_params.cc"
BOX = "libplan/layout/local_box.cc"
MEGATRON = "libplan/layout/megatron.cc"
VIEW = "libplan/layout/checkpoint_view.cc"
MODEL = "libplan/model/transformer.cc"
GRID = "libplan/strategy/rank_grid.cc"
SPLIT = "libplan/strategy/pipeline_split.cc"

ROW_PROJ = """    row_linear("self_attention.linear_proj", config_.hidden_size, checked_mul(heads, width),
               config_.add_bias_linear);
"""
COLUMN_QKV = """    column_linear("self_attention.linear_qkv", rows, config_.hidden_size,
                  config_.add_bias_linear || config_.add_qkv_bias);
"""

# name, file, text, replacement; the text must stand in the file exactly once.
MUTATIONS = [
    ("parameters aligned to 32", FLAT, "kParamAlignment = 64;", "kParamAlignment = 32;"),
    ("bucket ends aligned to 64", FLAT, "kBucketAlignment = 128;", "kBucketAlignment = 64;"),
    ("bucket ends without the group size", FLAT, "checked_lcm(buffer.shards, kBucketAlignment)",
     "kBucketAlignment"),
    ("half the high-bandwidth padding", FLAT, "65'536", "32'768"),
    ("buffers in registration order", FLAT, "std::size_t i = params.size(); i-- > 0;",
     "std::size_t i = 0; i < params.size(); ++i"),
    ("shared embeddings in common buckets", FLAT,
     "if (full || (distributed_ && param.shared_embedding)) close", "if (full) close"),
    ("0.11 shared embedding as in 0.13", FLAT, "      position_ = position;\n", ""),
    ("owned parts counted from the end", FLAT, "checked_mul(part, index)",
     "checked_mul(part, buffer.shards - 1 - index)"),
    ("vocabulary padded without tp", LOCAL,
     "checked_mul(model.make_vocab_size_divisible_by, cuts.tp)",
     "model.make_vocab_size_divisible_by"),
    ("experts always in expert buffers", LOCAL, "expert_buffers_ = cuts.ep > 1 ||",
     "expert_buffers_ = cuts.ep > 0 ||"),
    ("experts split by tp", LOCAL, "tensor.expert_axis >= 0 ? cuts.etp : cuts.tp", "cuts.tp"),
    ("experts placed by tp rank", BOX, "tensor.expert_axis >= 0 ? coords.etp : coords.tp",
     "coords.tp"),
    ("experts dealt round-robin", BOX,
     "static_cast<std::int64_t>(coords.ep) * coords.experts_per_rank + param.expert",
     "static_cast<std::int64_t>(coords.ep) + param.expert"),
    ("expert buffers over dense ranks", MEGATRON,
     "buffer.expert ? coords.intra_edp : coords.intra_dp_cp", "coords.intra_dp_cp"),
    ("linear_qkv before linear_proj", MODEL, (ROW_PROJ, COLUMN_QKV), None),
    ("fc1 split as one half", MODEL,
     'add(name + ".weight", {2, rows, columns}, 1).block_axis = 0;',
     'add(name + ".weight", {checked_mul(2, rows), columns}, 0);'),
    ("legacy experts row-major", MODEL, "std::vector<int>{0, 3, 1, 2}",
     "std::vector<int>{0, 1, 2, 3}"),
    ("instances strided over the group", GRID, "c.intra_dp_cp = c.dp_cp % dense_shards();",
     "c.intra_dp_cp = c.dp_cp / instances_;"),
    ("late virtual stages in 0.13", SPLIT, "version != MegatronVersion::V020 && chunks > 1",
     "version == MegatronVersion::V011 && chunks > 1"),
    ("replicas numbered by dp without cp", VIEW, "coords_.dp_cp", "coords_.dp"),
]


def mutate(text, old, new):
    if new is None:  # swap two passages
        first, second = old
        assert text.count(first) == 1 and text.count(second) == 1
        head, rest = text.split(first)
        middle, tail = rest.split(second)
        # What stands between them declares what the second needs.
        return head + middle + second + first + tail
    assert text.count(old) == 1, f"{text.count(old)} times in the file: {old}"
    return text.replace(old, new)


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)


def build_and_test(copy):
    """None if it does not build, else whether the tests pass."""
    built = run("ninja", "-C", str(copy / "build"), "-j2", "tests/layout/layout_test")
    if built.returncode != 0:
        print(built.stdout)
        return None
    environment = dict(os.environ, PLAN_TEST_DATA=str(copy / "tests"))
    test = run(str(copy / "build/tests/layout/layout_test"), "--abort", env=environment)
    return test.returncode == 0


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "source"
        ignored = shutil.ignore_patterns("build*", ".git", "subprojects")
        shutil.copytree(SOURCE, copy, ignore=ignored)
        setup = run("meson", "setup", str(copy / "build"), str(copy))
        if setup.returncode != 0 or build_and_test(copy) is not True:
            sys.exit(setup.stdout + "\nthe sources as they are do not pass")
        for name, file, old, new in MUTATIONS:
            if wanted not in name:
                continue
            path = copy / file
            original = path.read_text()
            path.write_text(mutate(original, old, new))
            passed = build_and_test(copy)
            path.write_text(original)
            good = passed is False
            failed = failed or not good
            verdict = {False: "caught", True: "NOT CAUGHT", None: "DOES NOT BUILD"}[passed]
            print(f"{verdict:15} {name}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
