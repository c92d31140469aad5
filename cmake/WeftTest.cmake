# weft_test_program(<name> <source> LABELS ... [SOURCES ...] [ARGUMENTS ...] [LIBRARIES ...]): one file, one program, one test;
# linked with libweft.a, or with these libraries instead.
#
# The head of the file (30 lines) may say more in comments of one line each:
#   /* labels: valgrind */       further labels
#   /* timeout: 1800 */          seconds, instead of 900
#   /* not under: asan qemu */   left out of these kinds of build (WEFT_LANE, and `chaos`)
#   /* serial */                 runs alone
#   /* needs: libuv */           a pkg-config module; without it the program is left out
# An exit status of 77 means "skipped".

# Reads the value of `/* key: value */` from the head of a file, as a list.
function(weft_head_value out key source)
  file(STRINGS "${source}" head LIMIT_COUNT 30 REGEX "^/\\* ${key}: .* \\*/$")
  string(REGEX REPLACE "^/\\* ${key}: (.*) \\*/$" "\\1" value "${head}")
  string(REPLACE " " ";" value "${value}")
  set(${out} "${value}" PARENT_SCOPE)
endfunction()

function(weft_test_program name source)
  cmake_parse_arguments(arg "" "" "LABELS;SOURCES;ARGUMENTS;LIBRARIES" ${ARGN})
  if(NOT arg_LIBRARIES)
    set(arg_LIBRARIES weft_static)
  endif()
  weft_head_value(labels "labels" "${source}")
  weft_head_value(timeout "timeout" "${source}")
  weft_head_value(not_under "not under" "${source}")
  weft_head_value(needs "needs" "${source}")
  file(STRINGS "${source}" serial LIMIT_COUNT 30 REGEX "^/\\* serial \\*/$")

  set(kinds ${WEFT_LANE})
  if(WEFT_CHAOS)
    list(APPEND kinds chaos)
  endif()
  foreach(kind IN LISTS kinds)
    if(kind IN_LIST not_under)
      message(STATUS "${name}: left out, not under ${kind}")
      return()
    endif()
  endforeach()

  set(libraries)
  foreach(module IN LISTS needs)
    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND AND NOT CMAKE_CROSSCOMPILING)
      pkg_check_modules(${module} QUIET IMPORTED_TARGET ${module})
    endif()
    if(NOT ${module}_FOUND)
      message(STATUS "${name}: left out, needs ${module}")
      return()
    endif()
    list(APPEND libraries PkgConfig::${module})
  endforeach()

  string(REPLACE "/" "-" target "test-${name}")
  add_executable(${target} "${source}" ${arg_SOURCES})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/test")
  target_compile_definitions(${target} PRIVATE CHECK_STRESS=${WEFT_STRESS})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} weft_flags ${libraries} m)
  if(WEFT_CHAOS AND "stress" IN_LIST arg_LABELS)
    target_compile_definitions(${target} PRIVATE CHECK_CHAOS)
  endif()
  get_filename_component(folder "${name}" DIRECTORY)
  get_filename_component(leaf "${name}" NAME)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME "${leaf}"
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/${folder}")

  add_test(NAME ${name} COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} ${WEFT_TEST_LAUNCHER} $<TARGET_FILE:${target}>
    ${arg_ARGUMENTS})
  list(APPEND labels ${arg_LABELS})
  if(NOT timeout)
    set(timeout 900) # only for what hangs: a busy machine may take a hundred times as long as an idle one
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout}
    SKIP_RETURN_CODE 77)
  if(serial)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()

  # One can build what a label needs: `ninja programs-stress`.
  foreach(label IN LISTS labels)
    if(NOT TARGET programs-${label})
      add_custom_target(programs-${label})
    endif()
    add_dependencies(programs-${label} ${target})
  endforeach()
endfunction()

# weft_test_script(<name> LABELS ... COMMAND ...): a script as a test.
function(weft_test_script name)
  cmake_parse_arguments(arg "" "" "LABELS;COMMAND" ${ARGN})
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 1800 SKIP_RETURN_CODE 77)
endfunction()
