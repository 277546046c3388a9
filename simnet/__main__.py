from simnet.cli import main

main()
