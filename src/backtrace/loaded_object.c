#include "backtrace/loaded_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

bool weft__loaded_object_find(uint64_t address, struct weft__loaded_object *out)
{
#if defined(DLFO_EH_SEGMENT_TYPE)
    struct dl_find_object found;
    if (_dl_find_object((void *)address, &found) != 0) {
        return false;
    }
    *out = (struct weft__loaded_object){
        .first = (uint64_t)found.dlfo_map_start,
        .end = (uint64_t)found.dlfo_map_end,
        .base = found.dlfo_link_map->l_addr,
        .unwind_tables = found.dlfo_eh_frame,
        .path = found.dlfo_link_map->l_name,
    };
    return true;
#else
    (void)address, (void)out;
    return false;
#endif
}

bool weft__loaded_object_segment(uint64_t address, uint64_t *first, uint64_t *end)
{
    struct weft__loaded_object object;
    if (!weft__loaded_object_find(address, &object)) {
        return false;
    }
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)object.first;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) {
        return false; /* its first segment does not begin with the file */
    }
    const ElfW(Phdr) *segment = (const ElfW(Phdr) *)((const char *)head + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++, segment++) {
        *first = object.base + segment->p_vaddr;
        *end = *first + segment->p_filesz;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && address >= *first &&
            address < *end) {
            return true;
        }
    }
    return false;
}

void weft__loaded_object_format(uint64_t address, char *buf, size_t size)
{
    struct weft__loaded_object object;
    if (!weft__loaded_object_find(address, &object)) {
        snprintf(buf, size, "0x%" PRIx64, address);
        return;
    }
    const char *slash = strrchr(object.path, '/');
    const char *name = slash ? slash + 1 : object.path;
    snprintf(buf, size, "%s+0x%" PRIx64, *name ? name : "program", address - object.base);
}
