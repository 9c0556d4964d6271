// Which version of which commit a program is.
#pragma once

#include <string>
#include <string_view>

namespace batchflow::version {

// `batchflowd 0.2.0 (commit 0123456789ab)`; without the commit where the tree has no history.
std::string version_text(std::string_view program);

}  // namespace batchflow::version
