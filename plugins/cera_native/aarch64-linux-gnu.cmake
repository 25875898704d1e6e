# Builds for 64-bit ARM with Debian's cross compiler; programs then run under qemu-user:
#   cmake -S plugins/cera_native -B build/aarch64 -DCERA_NATIVE_TESTS=ON \
#     -DCMAKE_TOOLCHAIN_FILE=plugins/cera_native/aarch64-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
