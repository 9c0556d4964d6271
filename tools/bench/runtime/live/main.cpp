// bench_live: jobs served by batchflowd beside PyTorch's DataLoader doing the same, turn by turn.
//
//   bench_live [--rounds N] [--pictures N]
//
// Both read the same pictures and deliver the same type and shape. The page cache is warm for
// PyTorch; the service reads past it and keeps what it chooses, from an empty cache at each start.
// Jobs compute nothing, so that what is measured is what can be delivered.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/prepare/pictures.h"
#include "tools/bench/spread.h"

namespace {

namespace fs = std::filesystem;
using batchflow::Spread;
using batchflow::spread_of;
using nlohmann::json;

std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error(command + ": cannot be run");
  std::string out;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    out.append(buffer, got);
  if (pclose(pipe) != 0) throw std::runtime_error(command + ": failed");
  return out;
}

struct Case {
  const char* name;
  unsigned jobs;
  bool as_float;
  double aim;
};

int bench(int argc, char** argv) {
  unsigned rounds = 5, pictures = 2048;
  bool small = false;
  CLI::App app("Jobs served by batchflowd beside PyTorch's DataLoader.", "bench_live");
  app.add_option("--rounds", rounds, "Turns of each")->check(CLI::Range(1, 100));
  app.add_option("--pictures", pictures, "In the data set")->check(CLI::Range(64, 1000000));
  app.add_flag("--small", small, "One round of few pictures: whether it works");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (small) {
    rounds = 1;
    pictures = 128;
  }
  const char* python = "/usr/bin/python3";
  if (std::system(fmt::format("{} -c 'import torch, torchvision' 2>/dev/null", python).c_str())) {
    std::printf("skipped: %s has no torch and torchvision (apt-get install python3-torchvision)\n",
                python);
    return 77;
  }
  std::string name = fs::temp_directory_path() / "batchflow-live-XXXXXX";
  if (!mkdtemp(name.data())) throw std::runtime_error(name + ": cannot be made");
  const fs::path folder = name;
  struct Remove {
    const fs::path& what;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(what, ignored);
    }
  } const remove{folder};
  std::size_t bytes = 0;
  for (unsigned i = 0; i < pictures; ++i) {
    const fs::path place = folder / "pictures" / fmt::format("class{}", i % 10);
    fs::create_directories(place);
    const batchflow::test::Encoded picture =
        batchflow::test::encode_jpeg(500, 375, {.quality = 75}, i);
    bytes += picture.size();
    std::ofstream(place / fmt::format("{:06}.jpg", i), std::ios::binary)
        .write(reinterpret_cast<const char*>(picture.data()),
               static_cast<std::streamsize>(picture.size()));
  }
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::printf(
      "%u pictures of 500 x 375, %.0f KB each; batches of 64; %u cores; %u rounds in turn\n\n",
      pictures, static_cast<double>(bytes) / pictures / 1000, cores, rounds);
  std::printf("%-26s %12s %12s %8s %16s %6s\n", "what", "BatchFlow", "PyTorch", "ratio",
              "least - most", "aim");
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string data = (folder / "pictures").string();
  for (const Case& one :
       {Case{"one job, uint8", 1, false, 2.5}, Case{"one job, float32", 1, true, 2.5},
        Case{"four jobs, uint8", 4, false, 8}, Case{"four jobs, float32", 4, true, 10}}) {
    std::vector<double> ours, theirs, ratios;
    for (unsigned round = 0; round < rounds; ++round) {
      std::string zeros = "0";
      for (unsigned i = 1; i < one.jobs; ++i) zeros += ",0";
      const fs::path result = folder / "result.json";
      output_of(
          fmt::format("{} --data {} --compute-ms {} --batch 64 --epochs 2 --presets default "
                      "--memory 2gib --pipeline {} --check --json {}",
                      (here / "batchflow-live").string(), data, zeros,
                      one.as_float ? "imagenet-train-f32" : "imagenet-train", result.string()));
      std::ifstream in(result);
      ours.push_back(json::parse(in)["runs"][0]["aggregate"]["samples_per_s"]);
      theirs.push_back(json::parse(
          output_of(fmt::format("{} {} --data {} --jobs {} --epochs 2 --batch 64 --workers {} {}",
                                python, BATCHFLOW_ROOT "/tools/live/torch_jobs.py", data, one.jobs,
                                cores, one.as_float ? "--float" : "")))["samples_per_s"]);
      ratios.push_back(ours.back() / theirs.back());
    }
    const Spread ratio = spread_of(ratios);
    std::printf("%-26s %10.0f/s %10.0f/s %8.2f %7.2f - %6.2f %6.1f\n", one.name,
                spread_of(ours).middle, spread_of(theirs).middle, ratio.middle, ratio.least,
                ratio.most, one.aim);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return bench(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_live: %s\n", error.what());
    return 1;
  }
}
