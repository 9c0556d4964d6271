#include "runtime/service/plugins/exit_files.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "policies/plugin/plugin_file.h"

namespace batchflow::service {
namespace {

namespace fs = std::filesystem;

fs::path exit_file(const fs::path& state, std::string_view hash) {
  return state / fmt::format("plugin-exit-{}.txt", hash.substr(0, plugin::kShortHash));
}

}  // namespace

void write_exit_file(const fs::path& state, const std::string& hash, const ExitReport& exit,
                     Instant now, const LastEvents& events, const engine::Engine& engine) {
  std::ofstream out(exit_file(state, hash));
  out << fmt::format("plugin {}\nexit {}: {}\n{}\nat {:.6f} s\n", hash,
                     static_cast<int>(exit.number), exit_text(exit.number), exit.why,
                     std::chrono::duration<double>(now.time_since_epoch()).count())
      << "\nit was asked last\n"
      << (exit.asked.empty() ? "what the state of the engine says" : exit.asked) << "\n"
      << "\nlast events\n"
      << events.text() << "\nthe engine\n"
      << engine.describe() << "\n";
}

void finish_exit_files(const fs::path& state) {
  std::error_code none;
  for (const fs::directory_entry& one : fs::directory_iterator(state, none)) {
    if (one.path().extension() != ".events") continue;
    std::ifstream in(one.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::ofstream out(fs::path(one.path()).replace_extension(".txt"), std::ios::app);
    out << "\nlast events\n" << events_text(std::as_bytes(std::span(bytes)));
    fs::remove(one.path(), none);
  }
}

}  // namespace batchflow::service
