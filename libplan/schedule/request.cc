#include "libplan/schedule/request.h"

#include "libplan/base/error.h"

namespace plan {

JsonDocument parse_request(const std::string& request) {
  JsonLimits limits;
  --limits.max_depth;  // the plan file nests it one level deep
  JsonDocument document;
  try {
    document = parse_json(request, "request", limits);
  } catch (const Error& error) {
    throw Error(ErrorCode::BadInput, "expected a JSON object, found: " + error.message(),
                "request");
  }
  const JsonCursor root = JsonCursor::root(document);
  if (!root.is(JsonKind::Object)) {
    root.fail("expected a JSON object, found " + describe(root.node()));
  }
  if (to_compact_json(root.node()) != request) {
    throw Error(ErrorCode::BadInput,
                "expected compact JSON (no white space, plain escapes), found another spelling",
                "request");
  }
  return document;
}

}  // namespace plan
