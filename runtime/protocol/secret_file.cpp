#include "runtime/protocol/secret_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "runtime/protocol/descriptor.h"

namespace batchflow::protocol {

std::string read_secret_file(const std::string& path, std::string_view kind, std::size_t most,
                             SecretFile& file) {
  file = {};
  const auto says = [&](std::string_view problem) { return fmt::format("{}: {}", path, problem); };
  const auto system_says = [&] { return says(std::generic_category().message(errno)); };
  std::string problem;
  const Descriptor opened = open_regular(path, O_RDONLY, problem);
  if (!opened) return says(problem);
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) return system_says();
  const auto is_large = [&](std::size_t bytes) {
    return says(fmt::format("it has {} bytes, and {} at most {}", bytes, kind, most));
  };
  if (static_cast<std::size_t>(status.st_size) > most)
    return is_large(static_cast<std::size_t>(status.st_size));
  if ((status.st_mode & 077) != 0)
    return says(fmt::format("others can {} it, and it is a secret; chmod 600",
                            (status.st_mode & 044) != 0   ? "read"
                            : (status.st_mode & 022) != 0 ? "write"
                                                          : "run"));
  file.owner = status.st_uid;
  char part[4096];
  for (;;) {
    const ssize_t got = ::read(opened.get(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_says();
    if (got == 0) return "";
    file.text.append(part, static_cast<std::size_t>(got));
    if (file.text.size() > most) return is_large(file.text.size());  // it has grown meanwhile
  }
}

}  // namespace batchflow::protocol
