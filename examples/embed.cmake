# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=file -DOUTPUT=header -DNAME=identifier -P embed.cmake: the bytes of a file as a C++ array.
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "alignas(8) static const unsigned char ${NAME}[] = {\n${bytes}};\n")
