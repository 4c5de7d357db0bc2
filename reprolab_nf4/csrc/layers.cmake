# _layers.abi3.so, which layers.py loads: for CPython 3.10 and later, without PyTorch at build time. The
# package works without it, so a machine without Python's headers builds the rest.
find_package(Python3 3.10 COMPONENTS Interpreter Development.Module)
if(NOT Python3_Development.Module_FOUND)
  add_custom_target(reprolab_nf4_layers
    COMMAND ${CMAKE_COMMAND} -E echo "no headers of Python 3.10 or later: layers are called in Python")
  return()
endif()
add_library(reprolab_nf4_layers MODULE
  ${PROJECT_SOURCE_DIR}/reprolab_nf4/csrc/calls.cpp
  ${PROJECT_SOURCE_DIR}/reprolab_nf4/csrc/layers.cpp)
target_include_directories(reprolab_nf4_layers SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
# What Python has is found in the process that loads it.
target_compile_options(reprolab_nf4_layers PRIVATE -ffunction-sections)
target_link_options(reprolab_nf4_layers PRIVATE
  -static-libstdc++ -Wl,--gc-sections -Wl,--exclude-libs,ALL)
set_target_properties(reprolab_nf4_layers PROPERTIES
  PREFIX ""
  OUTPUT_NAME _layers
  SUFFIX .abi3.so
  CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
