#include <algorithm>
#include <iostream>
#include <sstream>

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/base/quantity.h"
#include "libplan/layout/layout_json.h"
#include "tools/inputs.h"
#include "tools/verbs.h"

namespace plan::tools {
namespace {

std::string states_of(const Layout& layout, const Storage& storage) {
  std::string text;
  for (const Lane& lane : storage.lanes) {
    text +=
        (text.empty() ? "" : "+") + layout.states[static_cast<std::size_t>(lane.state.value)].name;
  }
  return text;
}

std::string to_text(const Layout& layout) {
  std::ostringstream text;
  for (const DeviceShards& device : layout.devices) {
    std::int64_t bytes = 0;
    for (const Storage& storage : device.storages) {
      for (const Lane& lane : storage.lanes) bytes += storage.size_elems * size_bytes(lane.dtype);
    }
    text << "device " << device.device.value << ": " << device.storages.size() << " storages, "
         << bytes_text(bytes) << "\n";
    for (const Storage& storage : device.storages) {
      text << "  " << storage.key << "  " << states_of(layout, storage) << "  "
           << storage.size_elems << " elements\n";
      for (const Shard& shard : storage.shards) {
        text << "    " << layout.tensors[static_cast<std::size_t>(shard.tensor.value)].name << " "
             << to_string(shard.box) << " at " << shard.offset_elems << ", strides "
             << to_string(shard.strides_elems) << "\n";
      }
    }
  }
  return text.str();
}

}  // namespace

int run_layout_verb(const LayoutArgs& args) {
  const ModelInput model = read_model_argument(args.inputs);
  SwitchSide side;
  if (args.at.empty()) throw Error(ErrorCode::Usage, "--at is required");
  side.strategy = read_strategy(args.inputs, args.at);
  Layout layout = resolve_layout(model.model, side, read_options(args.inputs, model.state_kinds));
  for (const std::string& notice : layout.notices) std::cerr << "note: " << notice << "\n";
  if (args.rank) {
    const DeviceId device = *args.rank >= 0 && *args.rank < side.strategy->world_size
                                ? side.strategy->device_of(*args.rank)
                                : DeviceId();
    std::erase_if(layout.devices, [&](const DeviceShards& d) { return d.device != device; });
    if (layout.devices.empty()) {
      throw Error(ErrorCode::BadInput, "--rank: expected 0 to " +
                                           std::to_string(side.strategy->world_size - 1) +
                                           ", found " + std::to_string(*args.rank));
    }
  }
  write_file(args.output, args.json ? to_json(layout) : to_text(layout));
  return 0;
}

}  // namespace plan::tools
