// gpu_check: everything of BatchFlow that runs on a GPU, checked and measured on the one that is
// here. Prints a row for each check, and ends with 1 if any has failed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/gpu_check/memory_client.h"
#include "tools/gpu_check/report.h"

namespace {

using batchflow::gpu_check::Options;
using batchflow::gpu_check::Report;
using batchflow::gpu_check::Verdict;

constexpr const char* kUsage = R"(Usage: gpu_check [OPTIONS]
  --only PART       kernels, decoding or memory; may be repeated
  --pictures DIR    a folder of JPEG files, for what decodes
  --seconds S       about how long each rate is measured (1)
  --sanitized       small sizes and no rates, for runs under compute-sanitizer
  --markdown FILE   also writes the table there
)";

struct Part {
  const char* name;
  void (*check)(Report&, const Options&);
};
constexpr Part kParts[] = {
#if defined(BATCHFLOW_CHECKS_MEMORY)
    {"memory", batchflow::gpu_check::check_memory},
#else
    {"memory", nullptr},
#endif
#if defined(BATCHFLOW_CHECKS_KERNELS)
    {"kernels", batchflow::gpu_check::check_kernels},
#else
    {"kernels", nullptr},
#endif
#if defined(BATCHFLOW_CHECKS_DECODE)
    {"decoding", batchflow::gpu_check::check_decoding},
#else
    {"decoding", nullptr},
#endif
};

struct Arguments {
  Options options;
  std::vector<std::string> only;
  std::string markdown;

  bool has(std::string_view part) const {
    for (const std::string& name : only)
      if (name == part) return true;
    return only.empty();
  }
};

[[noreturn]] void misused(const std::string& problem) {
  std::fprintf(stderr, "gpu_check: %s\n%s", problem.c_str(), kUsage);
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  Arguments given;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    } else if (name == "--sanitized") {
      given.options.sanitized = true;
      continue;
    }
    if (i + 1 == argc) misused(name + ": unknown, or without its value");
    const std::string value = argv[++i];
    if (name == "--only") {
      given.only.push_back(value);
    } else if (name == "--pictures") {
      given.options.pictures = value;
    } else if (name == "--seconds") {
      given.options.seconds = std::strtod(value.c_str(), nullptr);
      if (!(given.options.seconds > 0)) misused("--seconds: not a positive number");
    } else if (name == "--markdown") {
      given.markdown = value;
    } else {
      misused(name + ": unknown");
    }
  }
  for (const std::string& name : given.only) {
    bool known = false;
    for (const Part& part : kParts) known |= name == part.name;
    if (!known) misused("--only " + name + ": unknown");
  }
  return given;
}

}  // namespace

int main(int argc, char** argv) {
#if defined(BATCHFLOW_CHECKS_MEMORY)
  // The other process of a check in which two take part.
  if (argc == 4 && std::strcmp(argv[1], batchflow::gpu_check::kClientArgument) == 0)
    return batchflow::gpu_check::run_client(argv[2], argv[3]);
#endif
  const Arguments given = parse(argc, argv);
  Report report;
  for (const Part& part : kParts) {
    if (!given.has(part.name)) continue;
    if (part.check == nullptr) {
      report.row(part.name, "all", Verdict::not_run, "this part was not built");
      continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    try {
      part.check(report, given.options);
    } catch (const std::exception& error) {
      report.row(part.name, "all", Verdict::failed, error.what());
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%s took %.1f s\n", part.name, took.count());
  }
  if (!given.markdown.empty()) {
    std::ofstream file(given.markdown);
    file << report.markdown();
    if (!file.flush()) misused("--markdown " + given.markdown + ": cannot be written");
  }
  return report.failed() ? 1 : 0;
}
