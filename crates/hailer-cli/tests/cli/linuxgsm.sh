#!/bin/sh
# How LinuxGSM queries a server, rebuilt from its public source: one call of gamedig, and what it reads
# of the JSON with jq. The exit codes of both are ignored. Arguments: type, address, query port, game
# port. `GAMEDIG` is the program and its first arguments. Prints what LinuxGSM then knows.
type=$1
port=$3
if [ "$type" = teamspeak3 ]; then
    # node-gamedig wants the port for voice.
    port=$4
fi
json=$($GAMEDIG --type "$type" "$2:$port")

show() {
    # jq prints null for an absent value; LinuxGSM treats it as unknown.
    value=$(printf '%s\n' "$json" | jq -re "$2")
    if [ "$value" = null ]; then
        value=
    fi
    printf '%s=%s\n' "$1" "$value"
}

show error '.error | length'
show name '.name'
if [ "$type" = teamspeak3 ]; then
    show players '.raw.virtualserver_clientsonline'
    show version '.raw.virtualserver_version'
else
    show players '.players | length'
    show version '.raw.version'
fi
show maxplayers '.maxplayers'
show map '.map'
show gamemode '.raw.rules.GameMode_s'
show bots '.bots | length'
