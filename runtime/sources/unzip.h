// Files that are compressed by gzip or zstd, unpacked from beginning to end.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "runtime/sources/byte_view.h"

namespace batchflow::sources {

// Gives the bytes to `write`. Answers what is wrong and what to do; empty: nothing.
std::string unzip(ByteView& file, const std::function<void(std::span<const std::byte>)>& write);

}  // namespace batchflow::sources
