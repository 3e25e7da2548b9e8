# SPDX-License-Identifier: MIT
#
# Completion in fish for inboxfs, inboxd and inboxfs-sendmail. Their options are read from --help.

function __inboxfs_options
    set -l program (commandline -opc)[1]
    $program --help | string match -r -- '^  .*' | string match -ra -- '--[a-z][a-z-]+=?'
end

for program in inboxfs inboxd inboxfs-sendmail
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -a '(__inboxfs_options)'
end
complete -c inboxfs -n 'test (count (commandline -opc)) -eq 1' -a 'check status umount local'
complete -c inboxd -f -n 'test (count (commandline -opc)) -eq 1' -a 'key deliver backup'
complete -c inboxd -f -n 'test (count (commandline -opc)) -eq 2; and contains key (commandline -opc)' -a 'add list revoke'
