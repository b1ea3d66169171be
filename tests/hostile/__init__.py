"""Files made to mislead their readers, a different one for each kind and seed, and what becomes of those who read them.

A mutation knows the format: headers, directories and metadata stay well-formed but lie, links lead in circles or away,
codecs ask for code, files are no files or change while they are read. `hostile.running` reads them in a process of its
own. One case is made and read again, here and now, by::

    PYTHONPATH=tests python -m hostile h5 1234

and the file alone is left in a folder by adding its name.
"""
