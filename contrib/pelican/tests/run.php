<?php

// Runs the query types against servers, with stubs of the panel. Argument: a JSON object with `program`,
// `socket` and a list `queries` of [type, form, egg, ip, port]. Prints a JSON list of the results.

declare(strict_types=1);

namespace Boy132\PlayerCounter\Extensions\Query {
    interface QueryTypeSchemaInterface
    {
        public function getId(): string;

        public function getName(): string;

        public function process(string $ip, int $port): ?array;
    }

    final class QueryTypeService
    {
        /** @var array<string, QueryTypeSchemaInterface> */
        public array $schemas = [];

        public function register(QueryTypeSchemaInterface $schema): void
        {
            $this->schemas[$schema->getId()] ??= $schema;
        }
    }
}

namespace Illuminate\Support {
    /** The part of Laravel that the provider uses. */
    abstract class ServiceProvider
    {
        /** @var array<string, list<callable>> */
        public array $callbacks = [];

        protected function callAfterResolving(string $name, callable $callback): void
        {
            $this->callbacks[$name][] = $callback;
        }
    }
}

namespace {
    use Boy132\PlayerCounter\Extensions\Query\QueryTypeService;
    use Hailer\Pelican\Eggs;
    use Hailer\Pelican\HailerServiceProvider;

    error_reporting(E_ALL);
    set_error_handler(function (int $code, string $message, string $file, int $line): bool {
        // Failures of sockets and programs are expected, and silenced with `@`.
        if ((error_reporting() & $code) !== 0) {
            throw new ErrorException($message, 0, $code, $file, $line);
        }

        return true;
    });
    spl_autoload_register(function (string $class): void {
        require __DIR__ . '/../src/' . str_replace('Hailer\\Pelican\\', '', $class) . '.php';
    });

    $given = json_decode($argv[1], true, 512, JSON_THROW_ON_ERROR);
    putenv("HAILER_PROGRAM={$given['program']}");
    putenv("HAILER_SOCKET={$given['socket']}");
    $provider = new HailerServiceProvider();
    $provider->register();
    $service = new QueryTypeService();
    foreach ($provider->callbacks[QueryTypeService::class] as $callback) {
        $callback($service);
    }
    $results = [];
    foreach ($given['queries'] as [$type, $form, $egg, $ip, $port]) {
        $schema = $service->schemas[$type];
        $server = (object) ['egg' => (object) $egg, 'node' => (object) ['fqdn' => '127.0.0.1']];
        $results[] = match ($form) {
            'address' => $schema->process($ip, $port),
            'server' => $schema->process($server, $ip, $port),
            'with-server' => $schema->processWithServer($server, $ip, $port),
        };
    }
    $names = array_map(fn ($schema) => $schema->getName(), $service->schemas);
    echo json_encode(['results' => $results, 'types' => $names, 'games' => Eggs::GAMES], JSON_THROW_ON_ERROR), "\n";
}
