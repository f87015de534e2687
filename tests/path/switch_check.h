// The chief test of the whole path, for one switch: plan, prove, replay, compare every element.
#pragma once

#include <string>

#include "libplan/plan.h"

namespace plan::test {

// A request between two strategies of built-in or parsed models on one topology.
Request make_request(const std::string& model, const Strategy& from, const Strategy& to,
                     const std::string& topology, const PlanOptions& options);

// Empty if the plan verifies, survives both codecs, and its replay puts every element in its place;
// otherwise what went wrong first.
std::string fault_of_switch(const Request& request, bool replay);

}  // namespace plan::test
