<?php

declare(strict_types=1);

namespace Hailer\Pelican;

/** A way to run `hailer query --json`. */
interface Client
{
    /** Returns the line of JSON about a target, or null if there is none. */
    public function query(string $target): ?string;
}
