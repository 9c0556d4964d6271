#include "runtime/ctl/scenario_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "programs/output/output.h"
#include "runtime/sources/npy.h"

namespace batchflow::ctl {
namespace {

void write_samples(const std::filesystem::path& file, const input::DatasetModel& dataset) {
  // One row for each sample.
  const std::string head =
      sources::npy_head("|u1", fmt::format("({}, {})", dataset.samples, dataset.bytes));
  const Bytes size = dataset.samples * dataset.bytes;
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    if (std::filesystem::file_size(file, error) == head.size() + size) return;
    throw ConfigError(
        fmt::format("{}: is there, and has another size than the scenario says; remove it, "
                    "or name another folder",
                    file.string()));
  }
  std::filesystem::create_directories(file.parent_path(), error);
  output::write_file_atomically(file.string(), [&](const output::Sink& sink) {
    sink(head);
    Random random(hash(dataset.samples, dataset.bytes));
    std::string piece(std::size_t{1} << 16, '\0');
    for (Bytes left = size; left > 0;) {
      for (std::size_t at = 0; at < piece.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.draw();
        std::memcpy(piece.data() + at, &word, sizeof word);
      }
      const auto part = static_cast<std::size_t>(std::min<Bytes>(left, piece.size()));
      sink(std::string_view(piece).substr(0, part));
      left -= part;
    }
  });
}

}  // namespace

std::map<std::string, std::string> make_data(const input::Scenario& scenario,
                                             const std::filesystem::path& folder, Bytes most) {
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / (1 << 20); };
  Bytes all = 0;
  for (const input::DatasetModel& dataset : scenario.datasets) {
    Bytes size = 0;
    if (dataset.bytes == 0)
      throw ConfigError(fmt::format(
          "dataset '{}': its samples have no bytes; there is nothing to make", dataset.name));
    if (dataset.name.empty() || dataset.name.front() == '.' ||
        dataset.name.find('/') != std::string::npos)
      throw ConfigError(fmt::format("dataset '{}': a folder cannot have this name; choose another",
                                    dataset.name));
    if (__builtin_mul_overflow(dataset.samples, dataset.bytes, &size) ||
        __builtin_add_overflow(all, size, &all))
      all = UINT64_MAX;
    if (all > most)
      throw ConfigError(fmt::format(
          "dataset '{}': with {} samples of {} bytes, {:.1f} MiB would be made, and at most "
          "{:.1f} are allowed; raise --make-most, or make it smaller with --set "
          "datasets.N.samples=COUNT",
          dataset.name, dataset.samples, dataset.bytes, mib(all), mib(most)));
  }
  std::map<std::string, std::string> made;
  for (const input::DatasetModel& dataset : scenario.datasets) {
    const std::filesystem::path path = std::filesystem::absolute(folder) / dataset.name;
    write_samples(path / "samples.npy", dataset);
    made[dataset.name] = path.lexically_normal().string();
  }
  return made;
}

}  // namespace batchflow::ctl
