"""Writes the built-in model configs into a C++ source: embed_configs.py OUTPUT CONFIG.json..."""
import pathlib
import sys

output, *inputs = sys.argv[1:]
rows = []
for path in sorted(map(pathlib.Path, inputs)):
    text = path.read_text(encoding="utf-8")
    assert ')config"' not in text
    rows.append(f'    BuiltinConfig{{"{path.stem}", R"config({text})config"}},\n')
pathlib.Path(output).write_text(
    '#include "libplan/model/builtin_configs.h"\n\n'
    "namespace plan {\n\n"
    "const std::vector<BuiltinConfig>& builtin_configs() {\n"
    "  static const std::vector<BuiltinConfig> configs = {\n"
    + "".join(rows)
    + "  };\n  return configs;\n}\n\n}  // namespace plan\n",
    encoding="utf-8",
)
