<?php
// What a Laravel application has set up before its code runs: facades, the HTTP client, the database, config().
// The libraries are Debian's php-illuminate-*.

require_once '/usr/share/php/GuzzleHttp/autoload.php';
require_once '/usr/share/php/Illuminate/Support/autoload.php';
require_once '/usr/share/php/Illuminate/Http/autoload.php';
require_once '/usr/share/php/Illuminate/Database/autoload.php';

error_reporting(E_ALL & ~E_DEPRECATED);

$container = new Illuminate\Container\Container();
Illuminate\Support\Facades\Facade::setFacadeApplication($container);

$database = new Illuminate\Database\Capsule\Manager($container);
$database->addConnection(['driver' => 'sqlite', 'database' => getcwd() . '/documents.db', 'prefix' => '']);
$container->instance('db', $database->getDatabaseManager());

function config(string $name): array
{
    return ['url' => getenv('DOCLOCK_URL'), 'token' => getenv('DOCLOCK_TOKEN')];
}
