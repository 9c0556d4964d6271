#include "runtime/sources/leftovers.h"

#include <signal.h>

#include <cerrno>
#include <charconv>
#include <system_error>

namespace batchflow::sources {

void remove_leftovers(const std::filesystem::path& folder, const std::string& prefix) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    int process = 0;
    if (!name.starts_with(prefix)) continue;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), process);
    if (process > 0 && kill(process, 0) != 0 && errno == ESRCH)
      std::filesystem::remove_all(entry.path(), error);
  }
}

}  // namespace batchflow::sources
