#!/bin/sh
# Turns a container into a host that Ansible can log on to.
#
#   SSH_USER             user to create (ibmuser)
#   SSH_PORT             port to listen on (22)
#   SSH_AUTHORIZED_KEYS  public keys, one per line; also read from the file
#                        /etc/ssh-target/authorized_keys if there is one
#   SSH_PASSWORD         password of the user; without one only keys are accepted
#   SSH_LOG_LEVEL        of sshd (VERBOSE), which logs to standard output
#   SSHD_OPTIONS         more lines for sshd_config
#
# Host keys are taken from /etc/ssh-target/host-keys/ssh_host_*_key if there are
# any, and made otherwise.
set -eu

user=${SSH_USER:-ibmuser}
port=${SSH_PORT:-22}
given=/etc/ssh-target
state=/run/ssh-target
home=/home/$user

mkdir -p "$state" /run/sshd
chmod 755 "$state"

id "$user" >/dev/null 2>&1 || useradd --create-home --home-dir "$home" --shell /bin/sh "$user"
if [ -n "${SSH_PASSWORD:-}" ]; then
	printf '%s:%s\n' "$user" "$SSH_PASSWORD" | chpasswd
	password=yes
else
	usermod --password '*' "$user" # no password, but not locked: sshd refuses locked users
	password=no
fi

{
	printf '%s\n' "${SSH_AUTHORIZED_KEYS:-}"
	cat "$given/authorized_keys" 2>/dev/null || true
} >"$state/authorized_keys"
chmod 644 "$state/authorized_keys"

for key in "$given"/host-keys/ssh_host_*_key; do
	[ -f "$key" ] || continue
	install -m 600 "$key" "$state/$(basename "$key")"
done
ls "$state"/ssh_host_*_key >/dev/null 2>&1 || ssh-keygen -q -t ed25519 -N '' -f "$state/ssh_host_ed25519_key"

{
	printf '%s\n' "${SSHD_OPTIONS:-}"
	echo "Port $port"
	echo "LogLevel ${SSH_LOG_LEVEL:-VERBOSE}"
	echo "AllowUsers $user"
	echo "PasswordAuthentication $password"
	echo "AuthorizedKeysFile $state/authorized_keys"
	echo "KbdInteractiveAuthentication no"
	echo "UsePAM no"
	echo "PrintMotd no"
	echo "Subsystem sftp /usr/lib/openssh/sftp-server"
	for key in "$state"/ssh_host_*_key; do
		echo "HostKey $key"
	done
} >"$state/sshd_config"

exec /usr/sbin/sshd -D -e -f "$state/sshd_config" 2>&1
