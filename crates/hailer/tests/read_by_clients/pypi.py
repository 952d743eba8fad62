"""Reads servers with clients of PyPI.

Arguments: JSON list of [client, protocol or game, port], address. Prints a JSON list with the fields that the client
read of each, or its error.
"""

import asyncio
import dataclasses
import json
import sys
import threading

import a2s
import mcstatus
import samp_query
import trio
from opengsq import protocols as opengsq

HOST = sys.argv[2]
TIMEOUT_S = 4.0

# Names of each field in the results of opengsq.
NAMES = {
    "name": ["hostname", "sv_hostname", "si_name", "server_name", "virtualserver_name", "servername", "name"],
    "map": ["mapname", "map_name", "si_map", "map"],
    "online": ["numplayers", "num_players", "virtualserver_clientsonline", "players"],
    "max": ["maxplayers", "max_players", "sv_maxclients", "maxclients", "si_maxPlayers", "virtualserver_maxclients"],
    "password": ["password", "has_password", "needpass", "g_needpass", "si_usePass", "virtualserver_flag_password"],
    "version": ["gamever", "si_version", "version", "game_version", "virtualserver_version"],
}


def plain(value):
    """Turns objects of the clients into what JSON has."""
    if dataclasses.is_dataclass(value):
        # Not `asdict`: it copies what cannot be copied.
        fields = [field.name for field in dataclasses.fields(value)]
        return {field: plain(getattr(value, field)) for field in fields}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return str(value)


def named(fields, players):
    """Selects the fields by their names, which differ between protocols."""
    result = {}
    for field, names in NAMES.items():
        found = [fields[name] for name in names if isinstance(fields.get(name), (str, int, bool))]
        result[field] = found[0] if found else None
    if players is not None:
        players = [plain(player) for player in players]
        keys = ["player", "player_name", "client_nickname", "nick", "name"]
        result["players"] = [next(player[key] for key in keys if key in player) for player in players]
    result["raw"] = json.dumps([fields, players])
    return result


async def read_opengsq(protocol, port):
    at = {"host": HOST, "port": port, "timeout": TIMEOUT_S}
    if protocol == "a2s":
        source = opengsq.Source(**at)
        info = plain(await source.get_info())
        players = await source.get_players()
        fields = info | {"rules": plain(await source.get_rules()), "password": info["visibility"]}
        fields["password"] = "1" if "1" in str(fields["password"]) or "Private" in str(fields["password"]) else "0"
        return named(fields, players)
    if protocol in ("ase", "doom3", "gamespy1", "gamespy2", "gamespy3", "minecraft-query", "quake1", "quake2", "quake3"):
        kinds = {
            "ase": opengsq.ASE,
            "doom3": opengsq.Doom3,
            "gamespy1": opengsq.GameSpy1,
            "gamespy2": opengsq.GameSpy2,
            "gamespy3": opengsq.GameSpy4,
            "minecraft-query": opengsq.GameSpy4,
            "quake1": opengsq.Quake1,
            "quake2": opengsq.Quake2,
            "quake3": opengsq.Quake3,
        }
        status = plain(await kinds[protocol](**at).get_status())
        players = status.pop("players", None)
        fields = dict(status)
        for inner in ("info", "server"):
            fields |= fields.pop(inner, None) or {}
        return named(fields, players)
    if protocol == "vcmp":
        server = opengsq.Vcmp(**at)
        return named(plain(await server.get_status()), await server.get_players())
    if protocol == "fivem":
        server = opengsq.FiveM(**at)
        fields = await server.get_info() | await server.get_dynamic()
        return named(fields | {"numplayers": fields.get("clients")}, await server.get_players())
    if protocol == "satisfactory":
        return named(plain(await opengsq.Satisfactory(**at, app_token="").get_status()), None)
    if protocol == "battlefield":
        server = opengsq.Battlefield(**at)
        return named(plain(await server.get_info()), await server.get_players())
    if protocol == "samp":
        server = opengsq.Samp(**at)
        status = plain(await server.get_status()) | {"rules": plain(await server.get_rules())}
        return named(status, await server.get_players())
    if protocol == "unreal2":
        server = opengsq.Unreal2(**at)
        status = plain(await server.get_details()) | {"rules": plain(await server.get_rules())}
        return named(status, await server.get_players())
    if protocol == "teamspeak3":
        server = opengsq.TeamSpeak3(HOST, port, 9987, TIMEOUT_S)
        return named(plain(await server.get_info()), await server.get_clients())
    if protocol == "minecraft-bedrock":
        return named(plain(await opengsq.RakNet(**at).get_status()), None)
    status = await opengsq.Minecraft(**at).get_status()
    description = status["description"]
    fields = {
        "name": description if isinstance(description, str) else description.get("text"),
        "online": status["players"]["online"],
        "max": status["players"]["max"],
        "version": status["version"]["name"],
    }
    return {**fields, "players": [player["name"] for player in status["players"].get("sample", [])]}


async def read_a2s(_, port):
    at = (HOST, port)
    info = await a2s.ainfo(at, TIMEOUT_S)
    players = await a2s.aplayers(at, TIMEOUT_S)
    return {
        "name": info.server_name,
        "map": info.map_name,
        "online": info.player_count,
        "max": info.max_players,
        "players": [player.name for player in players],
        "password": info.password_protected,
        "version": info.version,
        "raw": json.dumps(await a2s.arules(at, TIMEOUT_S)),
    }


async def read_mcstatus(protocol, port):
    if protocol == "minecraft-bedrock":
        status = await mcstatus.BedrockServer(HOST, port, TIMEOUT_S).async_status()
        more = {"map": status.map_name, "version": status.version.name}
    elif protocol == "minecraft-query":
        status = await mcstatus.JavaServer(HOST, port, TIMEOUT_S).async_query()
        more = {"map": status.map_name, "version": status.software.version, "players": status.players.list}
    else:
        status = await mcstatus.JavaServer(HOST, port, TIMEOUT_S).async_status()
        more = {"version": status.version.name, "players": [player.name for player in status.players.sample or []]}
    numbers = {"online": status.players.online, "max": status.players.max}
    return {"name": status.motd.to_plain(), **numbers, **more}


async def read_samp(port):
    server = samp_query.Client(HOST, port)
    with trio.fail_after(TIMEOUT_S):
        info = await server.info()
        rules = plain((await server.rules()).rules)
        players = [player.name for player in (await server.players()).players]
    numbers = {"online": info.players, "max": info.max_players}
    texts = {"name": info.name, "players": players, "raw": json.dumps(rules)}
    return {"password": info.password, **numbers, **texts}


async def read_all_samp(ports):
    results = [None] * len(ports)

    async def read(i):
        try:
            results[i] = await read_samp(ports[i])
        except Exception as error:
            results[i] = {"error": repr(error)}

    async with trio.open_nursery() as nursery:
        for i in range(len(ports)):
            nursery.start_soon(read, i)
    return results


async def read(client, protocol, port):
    readers = {"opengsq": read_opengsq, "python-a2s": read_a2s, "mcstatus": read_mcstatus}
    try:
        return await asyncio.wait_for(readers[client](protocol, port), TIMEOUT_S * 3)
    except Exception as error:
        return {"error": repr(error)}


async def read_each(servers):
    return await asyncio.gather(*(read(*server) for server in servers))


def main():
    servers = json.loads(sys.argv[1])
    samp = [i for i, server in enumerate(servers) if server[0] == "samp-query"]
    others = [i for i in range(len(servers)) if i not in samp]
    results = {}
    ports = [servers[i][2] for i in samp]
    thread = threading.Thread(target=lambda: results.update(zip(samp, trio.run(read_all_samp, ports))))
    thread.start()
    results.update(zip(others, asyncio.run(read_each([servers[i] for i in others]))))
    thread.join()
    print(json.dumps([results[i] for i in range(len(servers))]))


main()
