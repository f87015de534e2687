// Messages through contiguous scratch, for executors that cannot move strided bytes themselves.
#pragma once

#include <vector>

#include "libplan/schedule/program_writer.h"

namespace plan {

// The one run to send: the slices themselves if they are one run already, else a scratch storage
// into which the window copies them before its messages.
LooseSlice packed(ProgramWriter& writer, std::int32_t window,
                  const std::vector<LooseSlice>& slices);

// The one run to receive: likewise, copied out after the window's messages.
LooseSlice unpacked(ProgramWriter& writer, std::int32_t window,
                    const std::vector<LooseSlice>& slices);

}  // namespace plan
