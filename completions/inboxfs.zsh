#compdef inboxfs inboxd inboxfs-sendmail
# SPDX-License-Identifier: MIT
#
# Completion in zsh, which reads the options from --help.
case $service in
inboxfs) _arguments '1:source or command:(check status umount local)' '*:folder:_directories' -- ;;
inboxd) _arguments '1:command:(key deliver backup)' '2:key command:(add list revoke)' '*:word: ' -- ;;
*) _arguments '*:address: ' -- ;;
esac
