// Plugins that crash, hang, lie and reach for what is not theirs: what becomes of the sample, of
// the step, and of this process.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>
#include <thread>

#include "runtime/failpoint/failpoint.h"
#include "runtime/step/batchflow_step.h"
#include "tests/runtime/step/steps.h"
#include "tests/source_dir.h"

namespace batchflow::test::faults_test {
namespace {

using std::chrono::milliseconds;

step::StepSettings hasty() {
  step::StepSettings settings;
  settings.timeout = milliseconds(200);
  settings.start_timeout = std::chrono::seconds(5);
  return settings;
}

std::string said(const std::string& why) {
  return "step 'mischief' of " + plugin("mischief") + ": " + why;
}

TEST_CASE("a crash or a hang costs the sample, and says so; the next one is made") {
  const std::pair<std::string, std::string> faults[] = {
      {"crash", "crashed (SIGSEGV)"},
      {"abort", "crashed (SIGABRT), and last wrote 'last words'"},
      {"hang", "took more than 0.2 s"},
      {"exit", "ended with exit code 0"},
      {"close", "crashed (SIGKILL)"},
      {"throw", "?[31mbad sample"},
      {"overrun", "crashed (SIGSEGV)"},
      {"underrun", "crashed (SIGSEGV)"},
      {"write input", "crashed (SIGSEGV)"},
      {"allocate", "out of memory; give the steps more (steps: memory: of the node file)"},
  };
  for (const auto& [what, why] : faults) {
    CAPTURE(what);
    Rows rows(mischief(what, ", at: [3, 5]"), hasty());
    for (std::int64_t key = 0; key < 8; ++key) {
      CAPTURE(key);
      const bool bad = key == 3 || key == 5;
      CHECK(rows.prepare(key) == (bad ? prepare::Prepared::corrupt : prepare::Prepared::done));
      if (bad) {
        CHECK(rows.problem() == said(why));
      } else {
        CHECK(rows.made() == row(key));
      }
    }
    const step::StepCounters counters = rows.counters();
    const bool stays = what == "throw" || what == "allocate";
    CHECK(counters.samples == 6);
    CHECK(counters.corrupt == (stays ? 2 : 0));
    CHECK(counters.starts == (stays ? 1 : 3));
    CHECK(counters.crashes == (stays || what == "hang" ? 0 : 2));
    CHECK(counters.late == (what == "hang" ? 2 : 0));
  }
}

TEST_CASE("a process that is killed in mid-sample costs that sample once") {
  Rows rows(mischief("nothing", ", slow_ms: 300"));
  std::thread killer([] {
    for (;;) {
      std::this_thread::sleep_for(milliseconds(20));
      // That of compiling has gone before this thread began.
      if (const std::vector<pid_t> all = children(); !all.empty()) {
        std::this_thread::sleep_for(milliseconds(150));
        kill(all[0], SIGKILL);
        return;
      }
    }
  });
  CHECK(rows.prepare(1) == prepare::Prepared::corrupt);
  killer.join();
  CHECK(rows.problem() == said("crashed (SIGKILL)"));
  CHECK(rows.prepare(1) == prepare::Prepared::done);
  CHECK(rows.made() == row(1));
}

TEST_CASE("a step that always fails is given up, fast, and it is not the samples' fault") {
  for (const char* what : {"crash", "hang"}) {
    CAPTURE(what);
    Rows rows(mischief(what), hasty());
    const auto began = std::chrono::steady_clock::now();
    int corrupt = 0;
    while (rows.prepare(corrupt) == prepare::Prepared::corrupt) REQUIRE(++corrupt < 100);
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
    const step::StepCounters before = rows.counters();
    CHECK(before.crashes + before.late == (std::string(what) == "crash" ? 16 : 2));
    for (std::int64_t key = 0; key < 1000; ++key)
      REQUIRE(rows.prepare(key) == prepare::Prepared::failed);
    CHECK(rows.counters().starts == before.starts);
    CHECK(rows.problem().find(std::string(what) == "crash" ? "SIGSEGV" : "more than 0.2 s") !=
          std::string::npos);
    CHECK(rows.problem().find("mend it") != std::string::npos);
    CHECK(rows.pipeline().plugins()[0]->is_broken());
  }
}

TEST_CASE("samples at fault that are tried again, one after the other, do not break the step") {
  Rows rows(mischief("hang", ", at: [1, 2, 3]"), hasty());
  for (const std::int64_t bad : {1, 2, 3}) {
    CHECK(rows.prepare(bad) == prepare::Prepared::corrupt);
    CHECK(rows.prepare(0) == prepare::Prepared::done);
  }
  for (const std::int64_t bad : {1, 2, 3}) CHECK(rows.prepare(bad) == prepare::Prepared::corrupt);
  CHECK(rows.prepare(0) == prepare::Prepared::done);
}

TEST_CASE("what a plugin writes to its output is read, and answers that are none end its process") {
  Rows chatter(mischief("chatter"));
  for (std::int64_t key = 0; key < 3; ++key) CHECK(chatter.prepare(key) == prepare::Prepared::done);
  CHECK(chatter.counters().starts == 1);

  Rows lying(mischief("answer twice", ", at: [1]"));
  CHECK(lying.prepare(0) == prepare::Prepared::done);
  CHECK(lying.prepare(1) == prepare::Prepared::corrupt);
  CHECK(lying.problem() == said("crashed (SIGKILL)"));
  CHECK(lying.prepare(2) == prepare::Prepared::done);
  CHECK(lying.made() == row(2));
}

TEST_CASE(
    "a plugin reaches nothing outside of its process, and can compute, read and have threads") {
  for (const char* what :
       {"open", "append", "socket", "fork", "kill", "own", "limits", "memory", "exec", "survive"}) {
    CAPTURE(what);
    Rows rows(mischief(what));
    REQUIRE(rows.prepare(1) == prepare::Prepared::done);
    CHECK(rows.made()[0] == EPERM);
  }
  CHECK(!std::filesystem::exists("/tmp/mischief"));
  for (const char* what : {"read", "thread"}) {
    CAPTURE(what);
    Rows rows(mischief(what));
    REQUIRE(rows.prepare(1) == prepare::Prepared::done);
    CHECK(rows.made()[0] == 0);
  }
  // Standard input, output and error, and its socket.
  Rows rows(mischief("descriptors"));
  const int leaking = fcntl(0, F_DUPFD, 20);  // which the service would not do
  REQUIRE(rows.prepare(1) == prepare::Prepared::done);
  CHECK(rows.made()[0] == 0b1111);
  close(leaking);
  Rows user(mischief("user"));
  REQUIRE(user.prepare(1) == prepare::Prepared::done);
  CHECK(user.made()[0] == (geteuid() == 0 ? 65534 : geteuid()));
}

TEST_CASE("a library that is no plugin, or none for this service, is refused with what to do") {
  const FakeDataset rows = rows_dataset();
  const auto why = [&](const std::string& file) {
    return refused(fmt::format("- {{plugin: {}}}\n", file), rows);
  };
  const auto has = [](const std::string& text, std::string_view part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  CHECK(why(plugin("no_plugin")) ==
        fmt::format("test.yaml:3: key 'steps.0.plugin': {}: it is a library, and no step: it "
                    "exports no bf_step_entry; write one with `batchflowctl step new NAME`; "
                    "docs/steps.md says how a plugin is written and built",
                    plugin("no_plugin")));
  has(why(plugin("other_abi")),
      "it was built for version 7 of the steps' interface, and this service has version 1; build "
      "it again");
  has(why(plugin("other_header")), "this service has version 1 with another header; build it");
  has(why((source_dir() / "README.md").string()), "it cannot be loaded (");
  has(why("nowhere.so"), "no file 'nowhere.so'; write its path");
  has(why(source_dir().string()), "no file '");
  has(why(plugin("crop")), "it crops pictures");
  has(refused(mischief("nothing", ", tpyo: 3"), rows),
      "there is no parameter 'tpyo'; there is at,");
  has(refused(mischief("refuse"), rows), "mischief.so: not on a Sunday");
  has(refused(mischief("crash at start"), rows), "crashed (SIGABRT)");
  has(refused(mischief("declare nonsense"), rows), "an output that can be no field");
  has(refused(mischief("declare too much"), rows), "it makes can be no field: ");
  has(refused(mischief("declare much"), rows), "give the steps more");
  step::StepSettings impatient;
  impatient.start_timeout = milliseconds(300);
  has(refused(mischief("hang at start"), rows, impatient), "took more than 0.3 s to start");
  has(refused("- {plugin: a.so, step: cast}\n", rows), "it stands beside 'plugin'");
  has(refused(mischief("nothing") + "- {step: cast, to: f64}\n", rows),
      "'cast' cannot come after 'mischief'");
  step::StepSettings elsewhere;
  elsewhere.worker = "/nowhere/worker";
  has(refused(mischief("nothing"), rows, elsewhere), "/nowhere/worker cannot be started");
  // Of a program that is no service.
  CHECK_THROWS_WITH(compile(mischief("nothing"), rows),
                    doctest::Contains("name this pipeline to batchflowd"));
}

TEST_CASE("what goes wrong once, in the process or before it is there, costs one attempt") {
  Rows rows(mischief("nothing"));
  failpoint::configure_failpoints("step.start=fail:1:1");
  CHECK(rows.prepare(1) == prepare::Prepared::failed);
  CHECK(rows.problem() == said("its process cannot be started"));
  CHECK(rows.prepare(1) == prepare::Prepared::done);
  failpoint::configure_failpoints("step.crash=fail:1:1");
  CHECK(rows.prepare(1) == prepare::Prepared::corrupt);
  CHECK(rows.problem() == said("crashed (SIGKILL)"));
  CHECK(rows.prepare(1) == prepare::Prepared::done);
  failpoint::configure_failpoints("");
  CHECK(rows.made() == row(1));
}

// Of the header as a compiler sees it, so that no change of it can be forgotten.
TEST_CASE("the hash of the plugins' interface is that of its header") {
  std::ifstream file(source_dir() / "runtime/step/batchflow_step.h");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t at; (at = text.find("/*")) != std::string::npos;)
    text.erase(at, text.find("*/", at) + 2 - at);
  const std::size_t own = text.find("#define BF_STEP_ABI_HASH");
  text.erase(own, text.find('\n', own) - own);
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    if (c == ' ' || c == '\n') continue;
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  CHECK_MESSAGE(BF_STEP_ABI_HASH == hash, fmt::format("write 0x{:016x}", hash));
}

// Of the process: nothing of it is there after many crashes that was not after the first.
void check_crashes(int crashes) {
  std::optional<Rows> made(std::in_place, mischief("crash", ", at: [1]"));
  Rows& rows = *made;
  REQUIRE(rows.prepare(0) == prepare::Prepared::done);
  const auto mappings = [] {
    std::ifstream file("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  const std::size_t files = open_files();
  const auto mapped = mappings();
  for (int i = 0; i < crashes; ++i) {
    REQUIRE(rows.prepare(1) == prepare::Prepared::corrupt);
    REQUIRE(rows.prepare(0) == prepare::Prepared::done);
  }
  CHECK(rows.counters().crashes == crashes);
  CHECK(open_files() == files);
  CHECK(mappings() <= mapped + 2);  // the heap may have been cut otherwise
  CHECK(children().size() == 1);
  made.reset();
  CHECK(children().empty());
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("a hundred crashes leave no process, descriptor or memory behind") {
  check_crashes(100);
}

TEST_SUITE("long") {
  TEST_CASE("a thousand crashes leave no process, descriptor or memory behind") {
    check_crashes(1000);
  }
}

}  // namespace
}  // namespace batchflow::test::faults_test
