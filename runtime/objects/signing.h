// Signatures of requests to S3 and to stores with the same interface: AWS Signature Version 4.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "runtime/objects/credentials.h"
#include "runtime/objects/http_connection.h"

namespace batchflow::objects {

// Adds the headers of a signature to a request without a body. `target` of the request is
// path?query, both encoded, the query in ascending order.
void sign(HttpRequest& request, std::string_view host, const Keys& keys, std::string_view region,
          std::string_view service, Calendar::time_point at);

}  // namespace batchflow::objects
