# The options of a build, and the target `weft_flags` that carries what they mean to everything
# that is compiled here. What a user of the library must have is on weft::weft itself (src/).
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(WEFT_TESTS "Build tests and examples" ${PROJECT_IS_TOP_LEVEL})
option(WEFT_BENCH "Build the benchmarks" OFF)
option(WEFT_EXPLORER "Build the interleaving explorer's models (test/model)" OFF)
option(WEFT_WERROR "Warnings are errors" OFF)
option(WEFT_CHAOS "Widen races: delays, by a seed, between the steps of the lock-free code" OFF)
option(WEFT_DEBUG "Costly assertions" OFF)
option(WEFT_LIBUNWIND "Backtraces in dumps, by libunwind" ON)
option(WEFT_URING "The io_uring driver, by liburing" ON)
option(WEFT_CARES "Names of hosts, by c-ares" ON)
option(WEFT_FORTIFY "Compile with _FORTIFY_SOURCE" OFF)
option(WEFT_TSAN_LIBRARY "Also build libweft-tsan, for programs built with -fsanitize=thread" OFF)
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")
set(WEFT_C_STANDARD 17 CACHE STRING "C standard of the library: 11 or 17")
set(WEFT_LANE "" CACHE STRING "What runs the tests: asan, tsan, valgrind, qemu or nothing")
set(WEFT_TEST_LAUNCHER "" CACHE STRING "Command that every test program is run under")
set(WEFT_STRESS 100 CACHE STRING "Default length of stress tests, in percent")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Type of the build" FORCE)
endif()

string(REGEX REPLACE "^(AMD64|amd64)$" "x86_64" WEFT_ARCH "${CMAKE_SYSTEM_PROCESSOR}")
string(REGEX REPLACE "^(arm64)$" "aarch64" WEFT_ARCH "${WEFT_ARCH}")

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(weft_flags INTERFACE)
target_compile_definitions(weft_flags INTERFACE
  _GNU_SOURCE $<$<BOOL:${WEFT_CHAOS}>:WEFT_CHAOS> $<$<BOOL:${WEFT_DEBUG}>:WEFT_DEBUG=1>)
target_compile_options(weft_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla>
  $<$<BOOL:${WEFT_WERROR}>:-Werror>)

# Hardening that costs nothing on the switch path. Frame pointers stay, so that profilers and
# dumps can walk a fiber's stack. On x86 only indirect branches are tracked (IBT): the shadow stack
# is not switched with the fiber, so nothing here may claim to support it.
target_compile_options(weft_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer -fstack-protector-strong -fstack-clash-protection>)
if(WEFT_ARCH STREQUAL "x86_64")
  target_compile_options(weft_flags INTERFACE -fcf-protection=branch)
elseif(WEFT_ARCH STREQUAL "aarch64")
  target_compile_options(weft_flags INTERFACE -mbranch-protection=bti)
endif()
target_link_options(weft_flags INTERFACE
  -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code)
if(WEFT_FORTIFY)
  target_compile_options(weft_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3>)
endif()
if(WEFT_SANITIZE)
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE}
    $<$<COMPILE_LANGUAGE:C>:-fno-sanitize-recover=all>)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()

# Without it dumps have no backtraces. The generic library, because the unwinder reads copies of stacks and not
# the stacks; there is none for a cross build.
set(weft_unwind)
if(WEFT_LIBUNWIND AND NOT CMAKE_CROSSCOMPILING)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(weft_unwind_generic QUIET libunwind-generic)
  endif()
  if(weft_unwind_generic_FOUND)
    set(weft_unwind unwind-${WEFT_ARCH})
  else()
    message(STATUS "No libunwind (Debian: libunwind-dev): dumps will have no backtraces")
  endif()
endif()

# Without it `auto` means epoll. There is none for a cross build.
set(weft_uring)
if(WEFT_URING AND NOT CMAKE_CROSSCOMPILING)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(weft_liburing QUIET liburing>=2.3)
  endif()
  if(weft_liburing_FOUND)
    set(weft_uring uring)
  else()
    message(STATUS "No liburing (Debian: liburing-dev): no io_uring driver")
  endif()
endif()
target_compile_definitions(weft_flags INTERFACE WEFT_URING=$<IF:$<BOOL:${weft_uring}>,1,0>)

# Without it there is no resolver. There is none for a cross build.
set(weft_cares)
if(WEFT_CARES AND NOT CMAKE_CROSSCOMPILING)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(weft_libcares QUIET libcares>=1.16)
  endif()
  if(weft_libcares_FOUND)
    set(weft_cares cares)
  else()
    message(STATUS "No c-ares (Debian: libc-ares-dev): no resolver")
  endif()
endif()
target_compile_definitions(weft_flags INTERFACE WEFT_CARES=$<IF:$<BOOL:${weft_cares}>,1,0>)
