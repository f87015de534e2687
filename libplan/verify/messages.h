// Sends against receives (V201 to V209), and freedom from deadlock (V210).
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/schedule/ir.h"
#include "libplan/verify/findings.h"

namespace plan::verify {

// A message whose two ends are both there, once each, and name each other.
struct Match {
  struct End {
    std::int32_t program = 0;
    std::int32_t window = 0;  // position in the program's windows
    std::int32_t index = 0;   // in the program's sends or receives
  };
  std::int64_t message = 0;
  End send;
  End receive;
  bool sound = false;  // same window and size too: the receive gets what the send reads
};

// Matches, ascending by message number.
std::vector<Match> check_messages(const ir::Schedule& schedule, Findings& findings);

// Finds every group of windows that wait for each other: a window starts after its rank's earlier
// windows and those it depends on, and is done when all partners of its messages have started the
// windows that hold the other ends.
void check_progress(const ir::Schedule& schedule, const std::vector<Match>& matches,
                    Findings& findings);

}  // namespace plan::verify
