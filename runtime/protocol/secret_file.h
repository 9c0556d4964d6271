// A file with a secret, such as tokens or passwords. Its owner alone may read and write it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace batchflow::protocol {

struct SecretFile {
  std::string text;
  uid_t owner = 0;
};

// Reads the file. Answers what is wrong, beginning with its path: it cannot be read, it has more
// than `most` bytes, or others than its owner may read or write it. Empty: nothing. `kind` says
// what the file is, such as "a file of tokens".
std::string read_secret_file(const std::string& path, std::string_view kind, std::size_t most,
                             SecretFile& file);

}  // namespace batchflow::protocol
