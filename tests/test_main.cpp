#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "tests/skip.h"
#include "tests/source_dir.h"

namespace {
bool any_skipped = false;
}

void batchflow::test::skipped(std::string_view why) {
  any_skipped = true;
  std::cout << "skipped: " << doctest::getContextOptions()->currentTest->m_name << ": " << why
            << std::endl;
}

std::filesystem::path batchflow::test::source_dir() {
  return BATCHFLOW_SOURCE_DIR;
}

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  return result == 0 && any_skipped ? 77 : result;
}
