# cmake -DSOURCE=... -DOUT=... -P WriteCommit.cmake: writes the commit of the tree into a source file,
# which stays as it is while the commit does.
set(commit "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -c safe.directory=${SOURCE} -C ${SOURCE} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#include <string_view>
namespace batchflow::version {
extern const std::string_view kCommit;
const std::string_view kCommit = \"${commit}\";
}  // namespace batchflow::version
")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
