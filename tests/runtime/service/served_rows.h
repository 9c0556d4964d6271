// Rows with known contents in a folder of their own, for a batchflowd to serve and be killed at.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test {

struct ServedRows {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  std::filesystem::path rows = folder.path() / "rows";
  std::vector<std::string> arguments = {"--dataset", "rows=" + rows.string(),
                                        "--memory",  "512mib",
                                        "--http",    "-1",
                                        "--socket",  socket,
                                        "--state",   folder.path() / "state"};
  explicit ServedRows(std::uint64_t count) {
    std::filesystem::create_directory(rows);
    write_rows(rows / "rows.npy", count, 16);
  }
  JobPlan plan() const {
    JobPlan made;
    made.service = socket;
    return made;
  }
};

// Whether it does within half a minute.
inline bool reaches(const std::atomic<std::uint64_t>& count, std::uint64_t least) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (count < least && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return count >= least;
}

}  // namespace batchflow::test
